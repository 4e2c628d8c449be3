"""Search of messages: by id, by key, by time."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec

from headrace.model.names import DLQ_PREFIX, RETRY_PREFIX
from web.cluster.topic_reader import TopicReader
from web.errors import Invalid
from web.pages.groups.resets import parse_time
from web.pages.messages.message_reads import MOST_BY_KEY, MessageReads
from web.pages.messages.message_row import MessageRow, row_of
from web.paths import path_of
from web.routes import View, Visit
from web.tables.table import SIZES, Column, Kind, Table

_HOUR_MS: Final = 3_600_000
_FOREVER: Final = (1 << 63) - 1


class Search(msgspec.Struct, frozen=True):
    """What is searched for."""

    by: Literal["time", "key", "id"] = "time"
    topic: str = ""
    id: str = ""
    key: str = ""
    begin: str = ""
    """ISO 8601 in UTC unless it has a zone, or ms since 1970; empty: no limit, for `time` an hour ago."""
    end: str = ""
    tag: str = ""
    property: str = ""
    """A property's name, or `name=value`."""
    at: str = ""
    """Where a page starts: an offset for each queue."""


SEARCH_ARGUMENTS: Final = {
    "by": "`time`, `key` or `id`.",
    "topic": "The topic; required by time. By key or id without it, at most 200 topics are searched, not system topics. By key, the retries and dead letters of its groups are searched too.",
    "id": "For `id`: the offset id or the unique id.",
    "key": "For `key`: a key of the message.",
    "begin": "The earliest time of storage: ISO 8601 in UTC unless it has a zone, or milliseconds since 1970.",
    "end": "The latest time of storage; a date is the end of its day.",
    "tag": "For `time`: only messages with this tag.",
    "property": "For `time`: only messages with this property, `name` or `name=value`.",
    "at": "Where the next page starts: `next` of the page before.",
}

COLUMNS: Final[tuple[Column[MessageRow], ...]] = (
    Column("id", "Message id", Kind.ID, link=lambda row: message_path(row.offset_id, row.topic)),
    Column("stored_at", "Stored", Kind.TIME),
    Column("tag", "Tag"),
    Column("keys", "Keys", Kind.LIST),
    Column("queue", "Queue", Kind.NUMBER),
    Column("queue_offset", "Offset", Kind.NUMBER),
    Column("size", "Size", Kind.BYTES),
    Column("body", "Body"),
)


_COLUMNS_OF_ALL: Final[tuple[Column[MessageRow], ...]] = (
    COLUMNS[0],
    Column("topic", "Topic", link=lambda row: path_of("topics", row.topic), says=lambda row: words_of_copy(row.topic)),
    *COLUMNS[1:],
)


class MessageSearch:
    """The page on which messages are searched."""

    def __init__(self, reads: MessageReads, now_ms: Callable[[], int]) -> None:
        self._reads = reads
        self._topics = TopicReader(reads.cluster)
        self._now_ms = now_ms

    async def show(self, visit: Visit) -> View:
        """The form, and what was found if something is searched for."""
        search = _from_arguments(visit)
        if "by" in visit.arguments:
            _check_required(search)
        data: dict[str, Any] = {
            "search": search,
            "topics": await self._topics.offered(),
            "is_searched": False,
            "next": None,
            "begin": None,
            "end": None,
            "looked_at": 0,
            "searched_topics": 0,
            "all_topics": 0,
        }
        if search.by == "id" and search.id:
            rows: Sequence[MessageRow] = [row_of(await self._reads.by_id(search.id, search.topic))]
        elif search.by == "key" and search.key:
            begin, end = self._span(search, 0)
            if search.topic:
                rows = await self._reads.by_key_with_copies(search.topic, search.key, begin, end)
            else:
                found = await self._reads.by_key_anywhere(search.key, begin, end)
                rows = found.rows
                data |= {"searched_topics": found.searched, "all_topics": found.topics}
            data |= {"begin": begin, "end": end if search.end else None}
            if len(rows) >= MOST_BY_KEY // 2:
                # Brokers return the newest messages up to their own limit: earlier ones may match.
                oldest = rows[0].stored_at
                data["next"] = _next(search, end=str(oldest if oldest < end else oldest - 1))
        elif search.by == "time" and search.topic:
            begin, end = self._span(search, self._now_ms() - _HOUR_MS)
            page = await self._reads.by_time_where(
                search.topic, begin, end, parse_offsets(search.at), lambda row: _matches(row, search)
            )
            rows = page.rows
            data |= {"begin": begin, "end": end if search.end else None, "looked_at": page.scanned}
            if page.next_offsets is not None:
                data["next"] = _next(search, begin=str(begin), at=".".join(map(str, page.next_offsets)))
                data["end"] = page.until or begin  # what was searched, and not what was asked for
        else:
            return View("Find messages", "messages/search.html", data)
        data["is_searched"] = True
        columns = COLUMNS if all(row.topic == search.topic for row in rows) else _COLUMNS_OF_ALL
        table = Table("messages", MessageRow, rows, columns, empty="No message was found.", size=SIZES[-1])
        return View("Find messages", "messages/search.html", data, [table])

    def _span(self, search: Search, default_begin: int) -> tuple[int, int]:
        begin = parse_time(search.begin) if search.begin else max(0, default_begin)
        end = parse_time(search.end, is_end=True) if search.end else _FOREVER
        if begin > end:
            raise Invalid("the end time is before the start time", "Swap the two times.")
        return begin, end


def words_of_copy(topic: str) -> tuple[str, dict[str, str]] | None:
    """What pages say in place of the topic of a copy that a group was given again or has given up; None for other topics."""
    if topic.startswith(DLQ_PREFIX):
        return "dead letter of {group}", {"group": topic.removeprefix(DLQ_PREFIX)}
    if topic.startswith(RETRY_PREFIX):
        return "retry of {group}", {"group": topic.removeprefix(RETRY_PREFIX)}
    return None


def message_path(message_id: str, topic: str) -> str:
    """The page of a message."""
    return path_of("messages", message_id, topic=topic)


def _check_required(search: Search) -> None:
    """Raises Invalid if the field is empty without which nothing can be searched."""
    if search.by == "time" and not search.topic:
        raise Invalid("the topic is missing", "Enter a topic.")
    if search.by == "key" and not search.key:
        raise Invalid("the key is missing", "Enter a key.")
    if search.by == "id" and not search.id:
        raise Invalid("the message id is missing", "Enter a message id.")


def _matches(row: MessageRow, search: Search) -> bool:
    if search.tag and row.tag != search.tag:
        return False
    if not search.property:
        return True
    name, has_value, value = search.property.partition("=")
    found = row.properties.get(name.strip())
    return found is not None and (not has_value or found == value.strip())


def _next(search: Search, **changes: str) -> dict[str, str]:
    given: dict[str, str] = {**msgspec.to_builtins(search), **changes}
    return {key: value for key, value in given.items() if value}


def parse_offsets(text: str) -> list[int] | None:
    """Where a page starts, an offset for each queue; None: at the beginning. Raises Invalid."""
    if not text:
        return None
    parts = text.split(".")
    if len(text) > 8_000 or not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):
        raise Invalid("the page's offsets are invalid", "Search again from the beginning.")
    return [int(part) for part in parts]


def _from_arguments(visit: Visit) -> Search:
    given = {key: value.strip() for key, value in visit.arguments.items() if value.strip()}
    try:
        return msgspec.convert(given, Search, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid("the request is invalid: {error}", "Correct the parameter and try again.", error=error) from error
