"""MessageRow: one message in a list, without its body."""

import msgspec

from headrace import MessageExt
from headrace.errors import RemoteProtocolError
from web.pages.messages.bodies import MOST_OF_PREVIEW, body_of, preview


class MessageRow(msgspec.Struct, frozen=True):
    """One message in a list."""

    id: str
    topic: str
    stored_at: int
    born_at: int
    tag: str
    keys: list[str]
    queue: int
    queue_offset: int
    retries: int
    """How often the group was given it again; of a message in a retry or dead letter topic."""
    size: int
    """Bytes of the body as it is stored."""
    body: str
    """The beginning."""
    offset_id: str
    properties: dict[str, str]


def row_of(message: MessageExt) -> MessageRow:
    """A message in a list, from one as it is stored. A body that cannot be decompressed is replaced with the reason."""
    try:
        body = preview(body_of(message, MOST_OF_PREVIEW)[0])
    except RemoteProtocolError as error:
        body = str(error)
    return MessageRow(
        message.message_id,
        message.topic,
        message.store_timestamp,
        message.born_timestamp,
        message.tags or "",
        message.keys,
        message.queue_id,
        message.queue_offset,
        message.reconsume_times,
        len(message.body),
        body,
        message.offset_message_id,
        message.properties,
    )
