"""WaitingMessage: one message in a list of messages that are not delivered yet."""

from typing import Final

import msgspec

from headrace.model import properties as property_names
from web.pages.messages.message_row import MessageRow
from web.pages.messages.message_search import message_path
from web.paths import path_of
from web.tables.table import Column, Kind, Table

_WHOLE_DIGITS: Final = 18


class WaitingMessage(msgspec.Struct, frozen=True):
    """One message and when it is delivered."""

    id: str
    due_at: int
    stored_at: int
    topic: str
    """The topic to which it is delivered."""
    tag: str
    keys: list[str]
    size: int
    body: str
    """The beginning."""
    offset_id: str


_COLUMNS: Final[tuple[Column[WaitingMessage], ...]] = (
    Column("id", "Message id", Kind.ID, link=lambda row: message_path(row.offset_id, "")),
    Column("due_at", "Due", Kind.TIME, help="When the broker delivers it to its topic."),
    Column("topic", "Topic", link=lambda row: path_of("topics", row.topic)),
    Column("stored_at", "Stored", Kind.TIME),
    Column("tag", "Tag"),
    Column("keys", "Keys", Kind.LIST),
    Column("size", "Size", Kind.BYTES),
    Column("body", "Body"),
)


def waiting(row: MessageRow, due_at: int) -> WaitingMessage:
    """A message that is delivered at a time."""
    return WaitingMessage(
        row.id, due_at, row.stored_at, real_topic(row), row.tag, row.keys, row.size, row.body, row.offset_id
    )


def table_of(rows: list[WaitingMessage], empty: str = "No message waits here.") -> Table[WaitingMessage]:
    """The table of a page of messages."""
    return Table("messages", WaitingMessage, rows, _COLUMNS, empty=empty)


def real_topic(row: MessageRow) -> str:
    """The topic to which a waiting message is delivered."""
    return row.properties.get(property_names.REAL_TOPIC, "")


def whole(text: str | None) -> int | None:
    """A property as a whole number; None if it is missing or anything else: clients choose properties."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > _WHOLE_DIGITS:
        return None
    return int(text)
