"""The list of groups with dead letters."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.settings import ClientConfig
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import TopicStatsTable
from headrace.protocol.bodies.stats import TopicOffset
from web.cluster.cluster import Cluster
from web.pages.dead_letters.dead_letter_pages import DeadLetterPages
from web.pages.dead_letters.handled_book import HandledBook
from web.pages.dead_letters.handled_letters import HandledLetters
from web.pages.dead_letters.letter_queues import LetterRange
from web.routes import Access, Visit
from web.sampling.sample import BrokerSample, DeadLetterQueue, Sample


class Answers:
    """Stands for the Admin and the Sampler: the last sample has one dead letter less of each group."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    async def topics(self) -> list[str]:
        return ["Orders", *(f"%DLQ%{group}" for group in self.counts)]

    async def topic_stats(self, topic: str) -> TopicStatsTable:
        return TopicStatsTable(
            {MessageQueue(topic, "a", 0): TopicOffset(0, self.counts[topic.removeprefix("%DLQ%")], 5)}
        )

    async def for_page(self) -> Sample:
        stored = {group: count - 1 for group, count in self.counts.items()}
        queues = tuple(DeadLetterQueue(group, 0, 0, count, 3.0) for group, count in stored.items())
        return Sample(3.0, (BrokerSample("C", "a", 0, "n:1", stored_dead_letters=stored, dead_letter_queues=queues),))


@pytest.mark.parametrize(("sort", "expected"), [("-messages", ["b", "c", "a"]), ("messages", ["a", "c", "b"])])
def test_groups_are_sorted_by_the_count_of_the_last_sample_and_shown_with_the_current_one(
    tmp_path: Path, sort: str, expected: list[str]
) -> None:
    stand_in: Any = Answers({"a": 1, "b": 9, "c": 4})
    unused: Any = SimpleNamespace()
    book = HandledBook(tmp_path / "dead-letters.db")
    book.mark("b", [LetterRange(MessageQueue("%DLQ%b", "a", 0), 0, 6)], 1, "ann", "")

    async def main() -> Any:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        cluster.admin = stand_in
        handled = HandledLetters(cluster, book)
        pages = DeadLetterPages(cluster, stand_in, unused, handled, unused)
        view = await pages.list_groups(Visit("", Access.VIEWER, ""))
        return view, (await view.tables[0].select({"sort": sort}).fill()).rows

    view, rows = asyncio.run(main())
    assert view.data["sampled_at"] == 3_000
    assert [row.group for row in rows] == expected
    assert {row.group: row.messages for row in rows} == stand_in.counts
    assert {row.group: row.unhandled for row in rows} == {"a": 1, "b": 3, "c": 4}
    assert {row.group: row.unhandled for row in view.tables[0].rows} == {"a": 0, "b": 2, "c": 3}
    book.close()
