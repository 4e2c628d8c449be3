"""Messages of a topic by time: pages over all queues, in the order in which they were stored.

A page is a range of each queue. What the next page starts with is a list of offsets, one for each queue, so that no message is shown twice or left out, also
if many were stored in the same millisecond.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from web.pages.messages.message_row import MessageRow

PAGE: Final = 100
"""How many messages a page looks at."""
_MOST_PULLS: Final = (
    50  # limit: of one queue for a page; a pull returns at least one message, or skips what is not stored any more
)


class Pulled(Struct, frozen=True):
    """What one pull returned, without bodies: a page may look at many large messages."""

    rows: Sequence[MessageRow]
    next_offset: int
    max_offset: int


class QueueRange(Struct, frozen=True):
    """What was read of a queue."""

    begin: int
    rows: Sequence[MessageRow]
    is_finished: bool
    """Whether the queue has no more messages of the time."""


class ScannedPage(Struct, frozen=True):
    """A page, and the offset of each queue at which the next one starts; None: it is the last one."""

    rows: Sequence[MessageRow]
    next_offsets: Sequence[int] | None


async def read_range(
    pull: Callable[[int, int], Awaitable[Pulled]], offset: int, begin_ms: int, end_ms: int
) -> QueueRange:
    """Reads up to a page of a queue's messages that were stored from `begin_ms` to `end_ms`. `pull` is called with an offset and a count."""
    found: list[MessageRow] = []
    at = offset
    for _ in range(_MOST_PULLS):
        result = await pull(at, PAGE - len(found))
        for row in result.rows:
            if row.stored_at > end_ms:
                return QueueRange(offset, found, is_finished=True)
            if row.stored_at >= begin_ms:
                found.append(row)
        if result.next_offset >= result.max_offset or result.next_offset <= at:
            return QueueRange(offset, found, is_finished=True)
        at = result.next_offset
        if len(found) >= PAGE:
            break
    return QueueRange(offset if found else at, found, is_finished=False)


def merge(ranges: Sequence[QueueRange]) -> ScannedPage:
    """The first page of what was read: the messages that no unread one can precede."""
    ordered = sorted(
        ((row.stored_at, number, row.queue_offset) for number, one in enumerate(ranges) for row in one.rows)
    )
    known = {(number, row.queue_offset): row for number, one in enumerate(ranges) for row in one.rows}
    limits = [
        (one.rows[-1].stored_at, number, one.rows[-1].queue_offset)
        for number, one in enumerate(ranges)
        if not one.is_finished and one.rows
    ]
    limit = min(limits, default=None)
    shown = [key for key in ordered if limit is None or key <= limit][:PAGE]
    next_offsets = [one.begin for one in ranges]
    for _, number, offset in shown:
        next_offsets[number] = offset + 1
    is_last = len(shown) == len(ordered) and all(one.is_finished for one in ranges)
    return ScannedPage([known[number, offset] for _, number, offset in shown], None if is_last else next_offsets)
