"""MessageRow: one message in a list, without its body."""

import msgspec

from headrace import MessageExt
from headrace.errors import RemoteProtocolError
from web.pages.messages.bodies import preview


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
    size: int
    body: str
    """The beginning."""
    offset_id: str
    properties: dict[str, str]


def row_of(message: MessageExt) -> MessageRow:
    """A message in a list."""
    try:
        body, size = preview(message.body), len(message.body)
    except RemoteProtocolError as error:
        body, size = str(error), message.size_bytes
    return MessageRow(
        message.message_id,
        message.topic,
        message.store_timestamp,
        message.born_timestamp,
        message.tags or "",
        message.keys,
        message.queue_id,
        message.queue_offset,
        size,
        body,
        message.offset_message_id,
        message.properties,
    )
