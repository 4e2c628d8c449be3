"""Samples: what is read of a broker, how often, and what remains if servers do not answer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.errors import BrokerError, RequestTimeout
from headrace.model.message_queue import MessageQueue
from headrace.model.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_HALF_TOPIC
from headrace.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    ConsumerConnection,
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    ProducerInfo,
    ProducerTableInfo,
    TopicOffset,
    TopicStatsTable,
)
from headrace.protocol.bodies.connections import Connection
from headrace.protocol.bodies.stats import QueueTimeSpan
from headrace.protocol.response_code import ResponseCode
from web.sampling import broker_reader
from web.sampling import sampler as sampler_module
from web.sampling.own_appliance import OwnAppliance
from web.sampling.paced import Paced
from web.sampling.sample import (
    BrokerSample,
    ClientKind,
    Progress,
    Sample,
    Traffic,
    disk_sizes,
    figures_by_group,
    size_of_text,
)
from web.sampling.sampler import Sampler

ADDRESS = "10.0.0.1:10911"


def queue(topic: str, queue_id: int = 0) -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


class FakeAdmin:
    """An Admin of a cluster with one broker, which counts requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.has_totals = True
        self.retry_lag_ms: int | None = None
        self.registered = {"broker-a": {0: ADDRESS}}
        self.problem: Exception | None = None
        self.hold: asyncio.Event | None = None
        self.more_topics: tuple[str, ...] = ()
        self.op_messages = 2
        self.progress = ConsumeStatsList(
            [
                {
                    "billing": [
                        ConsumeStats(
                            {
                                queue("Orders", 0): OffsetWrapper(10, 4, 1_000),
                                queue("Orders", 1): OffsetWrapper(5, 5, 2_000),
                            },
                            3.5,
                        ),
                        ConsumeStats({queue("%RETRY%billing"): OffsetWrapper(2, 0, 0)}, 0.0),
                    ]
                }
            ]
        )

    def _count(self, name: str) -> None:
        self.asked.append(name)
        if self.problem is not None:
            raise self.problem

    async def cluster_info(self) -> ClusterInfo:
        self._count("cluster_info")
        table = {name: BrokerData(name, "C", addresses) for name, addresses in self.registered.items()}
        return ClusterInfo(table, {"C": list(table)})

    async def runtime_info(self, _broker: str) -> dict[str, str]:
        self._count("runtime_info")
        if self.hold is not None:
            await self.hold.wait()
        return {"putTps": "1.5 2.0 3.0", "commitLogMinOffset": "100", "commitLogMaxOffset": "400"}

    async def broker_config(self, _broker: str) -> dict[str, str]:
        return {"brokerPermission": "6"}

    async def topic_configs(self, _broker: str) -> dict[str, Any]:
        return dict.fromkeys(("Orders", "%DLQ%billing", "%RETRY%billing", *self.more_topics))

    async def group_configs(self, _broker: str) -> dict[str, Any]:
        return {"billing": None}

    async def broker_consume_stats(self, _broker: str) -> ConsumeStatsList:
        self._count("broker_consume_stats")
        return self.progress

    async def consume_time_span(self, topic: str, group: str, *, broker: str) -> list[QueueTimeSpan]:
        assert (group, broker) == ("billing", ADDRESS)
        self._count(f"consume_time_span {topic}")
        if topic == "%RETRY%billing" and self.retry_lag_ms is not None:
            return [QueueTimeSpan(queue(topic), delay_time=self.retry_lag_ms)]
        if topic == "%RETRY%billing":
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, "no")
        return [QueueTimeSpan(queue(topic), delay_time=7_000), QueueTimeSpan(queue(topic, 1), delay_time=0)]

    async def broker_stats_totals(self, _broker: str, name: str) -> dict[str, int]:
        if not self.has_totals:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, "The stats <x> <*> not exist")
        totals: dict[str, dict[str, int]] = {
            "TRANSACTION_COMMIT_NUMS": {"Orders": 2, "Deleted": 1},
            "TIMER_DEQUEUE_NUMS": {"Orders": 1},
            "TOPIC_PUT_NUMS": {"Orders": 15, "Deleted": 1},
            "TOPIC_PUT_SIZE": {"Orders": 1500},
            "GROUP_GET_NUMS": {"Orders@billing": 9, "Deleted@billing": 1},
            "GROUP_GET_SIZE": {"Orders@billing": 900},
        }
        return totals.get(name, {})

    async def producers(self, _broker: str) -> ProducerTableInfo:
        return ProducerTableInfo({"orders": [ProducerInfo("a", version=409), ProducerInfo("b", version=409)]})

    async def consumer_connection(self, group: str, **_where: str) -> ConsumerConnection:
        self._count(f"consumer_connection {group}")
        return ConsumerConnection([Connection("c", version=409)])

    async def consumer_offsets(self, _broker: str) -> dict[str, dict[str, dict[int, int]]]:
        return {TRANSACTION_GROUP: {TRANSACTION_HALF_TOPIC: {0: 3}, TRANSACTION_OP_HALF_TOPIC: {0: 1}}}

    async def max_offset(self, queue: MessageQueue) -> int:
        assert (queue.topic, queue.broker_name) == (TRANSACTION_OP_HALF_TOPIC, "broker-a")
        if self.op_messages < 0:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, "no")
        return self.op_messages

    async def topic_stats(self, topic: str, *, broker: str | None = None) -> TopicStatsTable:
        assert broker == (None if topic == TRANSACTION_HALF_TOPIC else ADDRESS)
        self._count(f"topic_stats {topic}")
        return TopicStatsTable({queue(topic): TopicOffset(0, 7)})


def sampler_of(admin: FakeAdmin, clock: Callable[[], float] = lambda: 1_000.0) -> Sampler:
    return Sampler(admin, OwnAppliance(None), clock)  # type: ignore[arg-type]


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


async def take(admin: FakeAdmin) -> Sample:
    return await sampler_of(admin).latest(0)


def test_broker_is_sampled_with_traffic_lags_and_connections() -> None:
    async def main() -> None:
        (broker,) = (await take(FakeAdmin())).brokers
        assert broker.problem is None
        assert (broker.cluster, broker.key, broker.permission) == ("C", "broker-a", 6)
        assert broker.number("putTps") == 1.5
        assert broker.number("missing") is None
        assert broker.topic_in == {"Orders": Traffic(15, 1500)}
        assert broker.group_out == {("Orders", "billing"): Traffic(9, 900)}
        assert broker.topic_events == {
            "rocketmq_commit_messages": {"Orders": 2},
            "rocketmq_rollback_messages": {},
            "rocketmq_timer_enqueue": {},
            "rocketmq_timer_dequeue": {"Orders": 1},
        }
        orders, retry = broker.progress
        assert (orders.lag, orders.tps, orders.end_offset, retry.lag, retry.lag_ms) == (6, 3.5, 15, 2, None)
        assert orders.lag_ms == 7_000  # the age of the next message, not of the one that was consumed in 1970
        assert [(group, lag) for group, lag, _ in broker.lags()] == [("billing", 8)]
        assert broker.producers == {ClientKind("orders", "OTHER", "V4_9_8"): 2}
        assert broker.consumers == {ClientKind("billing", "OTHER", "V4_9_8", "PUSH"): 1}
        assert [(one.group, one.client_id, one.is_producer) for one in broker.members] == [
            ("orders", "a", True),
            ("orders", "b", True),
            ("billing", "c", False),
        ]
        assert broker.dead_letters == {"billing": 7}
        assert broker.half_messages == 0

    run(main())


def test_messages_of_a_retry_topic_count_before_the_group_has_an_offset_there() -> None:
    async def main() -> None:
        admin = FakeAdmin()
        del admin.progress.consume_stats_list[0]["billing"][1]
        sampler = sampler_of(admin)
        (broker,) = (await sampler.latest(-1)).brokers
        assert [(one.group, one.topic, one.lag, one.lag_ms) for one in broker.progress] == [
            ("billing", "Orders", 6, 7_000),
            ("billing", "%RETRY%billing", 7, None),
        ]
        await sampler.latest(-1)
        assert admin.asked.count("topic_stats %RETRY%billing") == 1

    run(main())


def test_time_lag_includes_a_retry_topic_in_which_the_group_has_no_offset() -> None:
    async def main() -> None:
        admin = FakeAdmin()
        admin.retry_lag_ms = 9_000
        del admin.progress.consume_stats_list[0]["billing"][1]
        figures = figures_by_group((await take(admin)).brokers)["billing"]
        assert (figures.lag, figures.lag_ms) == (13, 9_000)

    run(main())


@pytest.mark.parametrize("is_reversed", [False, True])
def test_time_lag_is_unknown_not_0_where_messages_wait(is_reversed: bool) -> None:
    parts = Progress("billing", "Orders", 0, 0, 0.0), Progress("billing", "%RETRY%billing", 3, None, 0.0)
    brokers = [BrokerSample("C", f"broker-{at}", 0, ADDRESS, progress=(one,)) for at, one in enumerate(parts)]
    together = BrokerSample("C", "broker", 0, ADDRESS, progress=parts)
    assert list(together.lags()) == [("billing", 3, None)]
    figures = figures_by_group(reversed(brokers) if is_reversed else brokers)["billing"]
    assert (figures.lag, figures.lag_ms) == (3, None)


def test_broker_without_totals_is_sampled_without_traffic() -> None:
    async def main() -> None:
        admin = FakeAdmin()
        admin.has_totals = False
        (broker,) = (await take(admin)).brokers
        assert (broker.problem, broker.topic_in, broker.group_out) == (None, None, None)

    run(main())


@pytest.mark.parametrize(("op_messages", "expected"), [(1, 4), (2, 3), (9, 0), (-1, None)])
def test_half_messages_are_those_that_no_op_message_resolves(op_messages: int, expected: int | None) -> None:
    async def main() -> None:
        admin = FakeAdmin()
        admin.more_topics, admin.op_messages = (TRANSACTION_HALF_TOPIC,), op_messages
        (broker,) = (await take(admin)).brokers
        assert (broker.problem, broker.half_messages) == (None, expected)

    run(main())


def test_requests_for_each_group_and_topic_are_made_once_a_minute() -> None:
    async def main() -> None:
        admin = FakeAdmin()
        sampler = sampler_of(admin)
        for _ in range(3):
            await sampler.latest(-1)
        assert admin.asked.count("runtime_info") == 3
        assert admin.asked.count("broker_consume_stats") == 1
        assert admin.asked.count("consume_time_span Orders") == 1
        assert admin.asked.count("consumer_connection billing") == 1
        assert admin.asked.count("topic_stats %DLQ%billing") == 1

    run(main())


def test_sample_is_shared_by_all_who_ask_within_its_age() -> None:
    async def main() -> None:
        now = [1_000.0]
        admin = FakeAdmin()
        sampler = sampler_of(admin, lambda: now[0])
        first, second = await asyncio.gather(sampler.latest(5), sampler.latest(5))
        assert first is second
        now[0] += 4
        assert await sampler.latest(5) is first
        now[0] += 2
        assert await sampler.latest(5) is not first
        assert admin.asked.count("cluster_info") == 2

    run(main())


def test_scraper_that_gives_up_does_not_take_the_sample_from_others() -> None:
    async def main() -> None:
        admin = FakeAdmin()
        admin.hold = asyncio.Event()
        sampler = sampler_of(admin)
        patient = asyncio.create_task(sampler.latest(5))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await sampler.latest(5)
        admin.hold.set()
        assert len((await patient).brokers) == 1

    run(main())


def test_page_does_not_wait_for_a_slow_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "PAGE_TIMEOUT_S", 0.01)

    async def main() -> None:
        admin = FakeAdmin()
        admin.hold = asyncio.Event()
        sampler = sampler_of(admin)
        assert await sampler.for_page() is None
        admin.hold.set()
        monkeypatch.setattr(sampler_module, "PAGE_TIMEOUT_S", 60.0)
        sample = await sampler.for_page()
        assert sample is not None
        assert len(sample.brokers) == 1

    run(main())


def test_broker_that_does_not_answer_is_sampled_with_the_reason() -> None:
    async def main() -> None:
        admin = FakeAdmin()
        admin.has_totals = True

        async def fail(_broker: str) -> dict[str, str]:
            raise RequestTimeout("no answer within 5 s")

        admin.runtime_info = fail  # type: ignore[method-assign]
        (broker,) = (await take(admin)).brokers
        assert broker.problem == "no answer within 5 s"
        assert broker.progress == ()

    run(main())


def test_broker_that_disappears_is_reported_for_a_day() -> None:
    async def main() -> None:
        now = [1_000.0]
        admin = FakeAdmin()
        sampler = sampler_of(admin, lambda: now[0])
        await sampler.latest(0)
        admin.registered = {}
        now[0] += 10
        (gone,) = (await sampler.latest(0)).brokers
        assert gone.key == "broker-a"
        assert gone.problem is not None
        assert "no longer registered" in gone.problem
        now[0] += 86_400
        assert (await sampler.latest(0)).brokers == ()

    run(main())


def test_name_servers_that_do_not_answer_are_a_problem_of_the_sample() -> None:
    async def main() -> None:
        admin = FakeAdmin()
        admin.problem = RequestTimeout("no name server answered")
        sample = await take(admin)
        assert (sample.brokers, sample.problem) == ((), "no name server answered")

    run(main())


def test_slow_fetch_is_repeated_so_rarely_that_it_takes_a_twentieth_of_the_time() -> None:
    async def main() -> None:
        now, fetched = [0.0], 0

        async def fetch() -> int:
            nonlocal fetched
            fetched += 1
            now[0] += 3
            return fetched

        paced: Paced[int] = Paced(10, lambda: now[0])
        assert await paced.get(fetch) == 1
        now[0] = 59.9
        assert await paced.get(fetch) == 1
        now[0] = 60
        assert await paced.get(fetch) == 2

    run(main())


def test_failed_fetch_leaves_no_old_value() -> None:
    async def main() -> None:
        async def fetch() -> int:
            return 1

        async def fail() -> int:
            raise RequestTimeout("late")

        now = [0.0]
        paced: Paced[int] = Paced(10, lambda: now[0])
        await paced.get(fetch)
        now[0] = 10
        with pytest.raises(RequestTimeout):
            await paced.get(fail)
        with pytest.raises(RequestTimeout):
            await paced.get(fail)

    run(main())


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0 B", 0),
        ("1.5 KiB", 1536),
        ("58.9 GiB", 63243393434),
        ("", None),
        ("1 XiB", None),
        ("a B", None),
        ("inf B", None),
    ],
)
def test_size_for_people_is_read(text: str, size: int | None) -> None:
    assert size_of_text(text) == size


def test_disk_sizes_are_read_from_the_runtime_information() -> None:
    assert disk_sizes({"commitLogDirCapacity": "Total : 2.0 GiB, Free : 1.0 GiB."}) == (2 << 30, 1 << 30)
    assert disk_sizes({}) is None
    assert disk_sizes({"commitLogDirCapacity": "none"}) is None


def test_limit_of_detail_requests_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(broker_reader, "_MOST_DETAILS", 3)
        admin = FakeAdmin()
        stats = ConsumeStats({queue("Orders"): OffsetWrapper(1, 1, 1)})
        admin.progress = ConsumeStatsList([{f"group-{number}": [stats]} for number in range(9)])
        await take(admin)
        assert sum(name.startswith("consumer_connection") for name in admin.asked) == 3

    run(main())
