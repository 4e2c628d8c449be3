"""The page of a topic over an Admin that answers from tables."""

import asyncio
from typing import Any

from headrace import TopicConfig
from headrace.client.settings import ClientConfig
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import TopicStatsTable
from headrace.protocol.bodies.stats import QueueTimeSpan, TopicOffset
from web.cluster.cluster import Cluster
from web.pages.topics import TopicPages
from web.routes import Access, Visit

QUEUE = MessageQueue("Orders", "a", 0)


class Answers:
    """Stands for the Admin: a topic with ten messages, and eight groups, of which the last has consumed all."""

    async def masters(self) -> dict[str, str]:
        return {"a": "n:1"}

    async def system_topics(self) -> list[str]:
        return []

    async def topic_configs(self, _address: str) -> dict[str, TopicConfig]:
        return {"Orders": TopicConfig("Orders", 1, 1)}

    async def topic_stats(self, _topic: str) -> TopicStatsTable:
        return TopicStatsTable({QUEUE: TopicOffset(0, 10)})

    async def consumer_offsets(self, _address: str) -> dict[str, dict[str, dict[int, int]]]:
        return {f"g{number}": {"Orders": {0: number + 3}} for number in range(8)}

    async def consume_time_span(self, _topic: str, _group: str) -> list[QueueTimeSpan]:
        return [QueueTimeSpan(QUEUE, delay_time=9_000)]


def test_group_without_waiting_messages_has_no_delay_and_the_furthest_groups_are_drawn() -> None:
    stand_in: Any = Answers()

    async def main() -> tuple[Any, list[Any]]:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        cluster.admin = stand_in
        view = await TopicPages(cluster).show_topic(Visit("", Access.VIEWER, "", {"topic": "Orders"}))
        return view, list((await view.tables[1].select({}).fill()).rows)

    view, rows = asyncio.run(main())
    assert [(row.group, row.lag, row.delay) for row in rows[:1] + rows[-1:]] == [("g0", 7, 9_000), ("g7", 0, 0)]
    [chart] = view.data["charts"].charts[1:]
    assert [line.label for line in chart.drawn] == [f"g{number}" for number in range(6)]
    assert [(first, last) for first, last, _ in chart.others] == [(7, 8)]
