"""Pages of messages by time, over queues that are lists of store times."""

import asyncio
import random

import pytest

from web.pages.messages.message_row import MessageRow
from web.pages.messages.time_scan import PAGE, Pulled, merge, read_range


def row(queue: int, offset: int, stored_at: int) -> MessageRow:
    return MessageRow(f"{queue}-{offset}", "Orders", stored_at, stored_at, "", [], queue, offset, 0, 0, "", "", {})


async def scan(
    queues: list[list[int]], starts: list[int], begin: int, end: int, per_pull: int = 7
) -> tuple[list[str], list[int] | None]:
    async def pull(queue: int, offset: int, count: int) -> Pulled:
        times = queues[queue][offset : offset + min(count, per_pull)]
        rows = [row(queue, offset + at, stored_at) for at, stored_at in enumerate(times)]
        return Pulled(rows, offset + len(rows), len(queues[queue]))

    ranges = [
        await read_range(lambda at, count, queue=queue: pull(queue, at, count), start, begin, end)  # type: ignore[misc]
        for queue, start in enumerate(starts)
    ]
    page = merge(ranges)
    return [one.id for one in page.rows], None if page.next_offsets is None else list(page.next_offsets)


@pytest.mark.parametrize("per_pull", [1, 7])
@pytest.mark.parametrize("seed", range(10))
def test_pages_show_every_message_once_in_the_order_of_storing(seed: int, per_pull: int) -> None:
    chosen = random.Random(seed)
    # Few different times: many messages are stored in the same millisecond.
    queues = [
        sorted(chosen.randrange(3, 20) for _ in range(chosen.randrange(300))) for _ in range(chosen.randrange(1, 6))
    ]
    begin, end = 3, 16

    async def pages() -> list[str]:
        shown: list[str] = []
        at: list[int] | None = [0] * len(queues)
        while at is not None:
            page, at = await scan(queues, at, begin, end, per_pull)
            assert len(page) <= PAGE
            shown += page
        return shown

    expected = sorted(
        (stored_at, number, offset)
        for number, queue in enumerate(queues)
        for offset, stored_at in enumerate(queue)
        if begin <= stored_at <= end
    )
    assert asyncio.run(pages()) == [f"{number}-{offset}" for _, number, offset in expected]


def test_topic_without_messages_of_the_time_is_one_empty_page() -> None:
    assert asyncio.run(scan([[1, 2], []], [0, 0], 5, 9)) == ([], None)
