import asyncio
from typing import Any

import pytest

from headrace import MessageQueue
from headrace.client.settings import ClientConfig
from web.cluster.cluster import Cluster
from web.errors import Invalid
from web.pages.messages.message_reads import MessageReads
from web.pages.messages.message_row import MessageRow
from web.pages.messages.time_scan import PAGE, ScannedPage


class Answers:
    """Stands for the Admin: a topic with the given number of readable queues."""

    def __init__(self, queues: int) -> None:
        self.queues = queues

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        return [MessageQueue(topic, "broker-a", at) for at in range(self.queues)]


def search(queues: int, offsets: list[int] | None) -> None:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = Answers(queues)
    cluster.admin = stand_in
    asyncio.run(MessageReads(cluster).by_time("Orders", 0, 9, offsets))


class Stored(MessageReads):
    """Scans a topic with so many messages in one queue."""

    def __init__(self, count: int) -> None:
        super().__init__(Cluster(ClientConfig("127.0.0.1:1")))
        self.count = count

    async def by_time(self, topic: str, _begin_ms: int, _end_ms: int, offsets: list[int] | None) -> ScannedPage:
        first = 0 if offsets is None else offsets[0]
        end = min(first + PAGE, self.count)
        rows = [MessageRow(str(at), topic, at, at, "", [], 0, at, 0, 0, "", "", {}) for at in range(first, end)]
        return ScannedPage(rows, None if end == self.count else [end])


def scan(count: int, one_in: int) -> list[tuple[int, int]]:
    """Searches for one in so many messages: what each page found, and how many it scanned."""

    async def main() -> list[tuple[int, int]]:
        pages, found, offsets = [], [], None
        while True:
            page = await Stored(count).by_time_where("T", 0, 9, offsets, lambda row: row.queue_offset % one_in == 0)
            pages.append((len(page.rows), page.scanned))
            found += [row.queue_offset for row in page.rows]
            if page.next_offsets is None:
                assert found == list(range(0, count, one_in))
                return pages
            offsets = list(page.next_offsets)

    return asyncio.run(main())


def test_search_for_rare_messages_scans_on_until_a_page_is_full_or_it_takes_too_long() -> None:
    assert scan(250, 1) == [(100, 100), (100, 100), (50, 50)]
    assert scan(1_250, 10) == [(100, 1_000), (25, 250)]
    assert scan(12_000, 4_000) == [(2, 5_000), (1, 5_000), (0, 2_000)]


def test_topic_that_may_not_be_read_is_an_error_and_not_an_empty_list() -> None:
    with pytest.raises(Invalid, match="the topic Orders has no readable queue"):
        search(0, None)


def test_page_of_another_number_of_queues_is_refused() -> None:
    with pytest.raises(Invalid, match="the number of queues has changed"):
        search(2, [5])
