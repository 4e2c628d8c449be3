"""What live tails read over an Admin that answers from a table."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import BrokerError, MessageExt, MessageQueue
from headrace.client.settings import ClientConfig
from headrace.protocol.bodies import TopicStatsTable
from headrace.protocol.bodies.stats import TopicOffset
from headrace.protocol.response_code import ResponseCode
from web.cluster.cluster import Cluster
from web.pages.tail_messages import TailMessages

QUEUES = [MessageQueue("Orders", "broker-a", number) for number in range(4)]
VIEWERS = 20


class Answers:
    """Stands for the Admin: queues that end at one offset, of which a pull returns at most `most` messages."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.most = 32
        self.failure: Exception | None = None
        self.asked: Counter[str] = Counter()

    async def topic_stats(self, _topic: str) -> TopicStatsTable:
        self.asked["ends"] += 1
        return TopicStatsTable({queue: TopicOffset(0, self.end) for queue in QUEUES})

    async def read_messages(self, queue: MessageQueue, offset: int, count: int) -> Any:
        self.asked["pulls"] += 1
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        end = min(offset + min(count, self.most), self.end)
        found = [
            MessageExt(queue.topic, queue.queue_id, at, at, body=b"b", properties={"UNIQ_KEY": f"M{at}"})
            for at in range(offset, end)
        ]
        return SimpleNamespace(messages=found, next_offset=end)


def run(answers: Answers, main: Callable[[TailMessages], Awaitable[None]]) -> None:
    async def whole() -> None:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        stand_in: Any = answers
        cluster.admin = stand_in
        await main(TailMessages(cluster, "Orders", inf))

    asyncio.run(whole())


def test_viewers_of_a_topic_cost_one_request_for_the_ends_and_one_for_each_queue() -> None:
    answers = Answers(100)

    async def view(tail: TailMessages) -> None:
        ends = await tail.ends()
        for queue in QUEUES:
            pulled = await tail.between(queue, ends[queue] - 3, ends[queue])
            assert [one.offset for one in pulled.messages] == [97, 98, 99]
            assert pulled.next_offset == 100

    async def main(tail: TailMessages) -> None:
        await asyncio.gather(*(view(tail) for _ in range(VIEWERS)))
        await view(tail)

    run(answers, main)
    assert answers.asked == {"ends": 1, "pulls": len(QUEUES)}


def test_viewer_that_wants_fewer_messages_gets_part_of_what_was_pulled() -> None:
    answers = Answers(100)

    async def main(tail: TailMessages) -> None:
        await tail.between(QUEUES[0], 90, 100)
        assert [one.offset for one in (await tail.between(QUEUES[0], 98, 100)).messages] == [98, 99]
        assert answers.asked["pulls"] == 1
        assert len((await tail.between(QUEUES[0], 88, 100)).messages) == 12
        assert answers.asked["pulls"] == 2

    run(answers, main)


def test_what_a_broker_did_not_return_is_pulled_next() -> None:
    answers = Answers(100)
    answers.most = 4

    async def main(tail: TailMessages) -> None:
        first = await tail.between(QUEUES[0], 90, 100)
        assert first.next_offset == 94
        assert [one.offset for one in (await tail.between(QUEUES[0], 94, 100)).messages] == [94, 95, 96, 97]

    run(answers, main)


def test_failure_is_shared_by_those_who_wait_and_not_kept() -> None:
    answers = Answers(100)
    answers.failure = BrokerError.of(ResponseCode.SYSTEM_ERROR, "no")

    async def main(tail: TailMessages) -> None:
        waiting = [tail.between(QUEUES[0], 90, 100) for _ in range(VIEWERS)]
        failures = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in failures] == [type(answers.failure)] * VIEWERS
        assert answers.asked["pulls"] == 1
        answers.failure = None
        assert (await tail.between(QUEUES[0], 90, 100)).next_offset == 100

    run(answers, main)


def test_viewer_that_leaves_does_not_take_the_pull_from_others() -> None:
    answers = Answers(100)

    async def main(tail: TailMessages) -> None:
        leaving, staying = (asyncio.create_task(tail.between(QUEUES[0], 90, 100)) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await staying).next_offset == 100
        with pytest.raises(asyncio.CancelledError):
            await leaving

    run(answers, main)
