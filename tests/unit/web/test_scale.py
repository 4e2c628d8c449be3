"""How many requests the pages cost a cluster with 2,000 topics and 500 groups: a fixed number, and some for each row that is shown.

Times in a browser are measured by bench/pages.py.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import BrokerError, MessageExt, SubscriptionGroupConfig, TopicConfig
from headrace.client.settings import ClientConfig
from headrace.model.message_queue import MessageQueue
from headrace.model.names import TRANSACTION_HALF_TOPIC, TRANSACTION_OP_HALF_TOPIC, dlq_topic
from headrace.protocol.bodies import ClusterInfo, ConsumeStats, ProducerTableInfo, TopicRouteData, TopicStatsTable
from headrace.protocol.bodies.route import BrokerData
from headrace.protocol.bodies.stats import ConsumeQueueData, OffsetWrapper, QueueTimeSpan, TopicOffset
from headrace.protocol.response_code import ResponseCode
from web.application import ConsoleSettings, make_console
from web.cluster.cluster import Cluster
from web.config import ConsoleConfig
from web.errors import Invalid, NotFound
from web.pages.groups.group_list import GroupList
from web.pages.groups.group_reads import GroupReads
from web.pages.search import SearchPages
from web.pages.topics import TopicPages
from web.pages.waiting.delay_pages import DelayPages
from web.pages.waiting.transaction_pages import TransactionPages
from web.routes import Access, Query, Visit
from web.sampling.sample import BrokerSample, Member, Sample

pytestmark = pytest.mark.slow
TOPICS, GROUPS = 2_000, 500
TOPICS_OF_A_GROUP = 40
QUEUES = 25
BROKERS = {"broker-a": "n:1", "broker-b": "n:2"}
ROWS = 50
LEVELS = 18
BOOK: Any = None  # nothing was given up


class CountingAdmin:
    """Answers for a cluster of two brokers, and counts requests by their name, those for routes as `route`.

    Every group is behind in all its topics and has dead letters.
    """

    def __init__(self, topics: int = TOPICS, groups: int = GROUPS) -> None:
        self.asked: Counter[str] = Counter()
        self._groups = [f"G{number:03}" for number in range(groups)]
        self._names = [
            *(f"T{number:04}" for number in range(topics)),
            *map(dlq_topic, self._groups),
            TRANSACTION_HALF_TOPIC,
        ]

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name == "asked":
            return object.__getattribute__(self, name)
        self.asked[name] += 1
        return object.__getattribute__(self, name)

    async def topics(self) -> list[str]:
        return self._names

    async def system_topics(self) -> list[str]:
        return []

    async def masters(self) -> dict[str, str]:
        return BROKERS

    async def topic_configs(self, _address: str) -> dict[str, TopicConfig]:
        return {name: TopicConfig(name) for name in self._names}

    async def group_configs(self, _address: str) -> dict[str, SubscriptionGroupConfig]:
        return {name: SubscriptionGroupConfig(name) for name in self._groups}

    async def consumer_offsets(self, _address: str) -> dict[str, dict[str, dict[int, int]]]:
        return {group: {self._names[number]: {0: 1}} for number, group in enumerate(self._groups)}

    async def topic_stats(self, topic: str, *, broker: str = "") -> TopicStatsTable:
        self._count_route(broker)
        return TopicStatsTable(
            {
                MessageQueue(topic, name, 0): TopicOffset(0, 3)
                for name, address in BROKERS.items()
                if broker in ("", address)
            }
        )

    def _count_route(self, broker: str) -> None:
        """Without a broker the route of the topic is requested before."""
        if not broker:
            self.asked["route"] += 1

    async def consumer_connection(self, _group: str, *, broker: str = "") -> Any:
        self._count_route(broker)
        raise BrokerError.of(ResponseCode.CONSUMER_NOT_ONLINE, "not online")

    async def consume_stats(self, _group: str, **_where: str) -> ConsumeStats:
        topics = enumerate(self._names[:TOPICS_OF_A_GROUP])
        return ConsumeStats(
            {
                MessageQueue(topic, "broker-a", queue): OffsetWrapper(2, 1, n)
                for n, topic in topics
                for queue in range(QUEUES)
            }
        )

    async def consume_time_span(self, topic: str, _group: str) -> list[QueueTimeSpan]:
        return [QueueTimeSpan(MessageQueue(topic, "broker-a", 0), delay_time=1)]

    async def name_servers(self) -> list[str]:
        return ["n:9876"]

    async def topic_route(self, _topic: str) -> TopicRouteData:
        return TopicRouteData()

    async def cluster_info(self, **_where: str) -> ClusterInfo:
        table = {name: BrokerData(name, "C", {0: address}) for name, address in BROKERS.items()}
        return ClusterInfo(table, {"C": list(table)})

    async def runtime_info(self, _address: str) -> dict[str, str]:
        return {"timerCongestNum": "100000", "commitLogMaxOffset": "5"}

    async def broker_config(self, _address: str) -> dict[str, str]:
        return {"messageDelayLevel": " ".join(f"{level}m" for level in range(1, LEVELS + 1))}

    async def consume_queue(self, _queue: MessageQueue, _offset: int, _count: int) -> Any:
        return SimpleNamespace(queue_data=[ConsumeQueueData(1_000, 100, 5)] * _count)

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        return [MessageQueue(topic, broker, 0) for broker in BROKERS]

    async def consumer_offset(self, _group: str, _queue: MessageQueue) -> int:
        return 0

    async def max_offset(self, _queue: MessageQueue) -> int:
        return 1_000_000

    async def read_messages(self, queue: MessageQueue, offset: int, count: int) -> Any:
        found = [
            MessageExt(queue.topic, 0, at, at, body=b"", properties={"UNIQ_KEY": str(at)})
            for at in range(offset, offset + count)
        ]
        messages = [SimpleNamespace(stored=lambda one=one: one) for one in found]
        return SimpleNamespace(messages=messages, next_offset=offset + count, max_offset=1_000_000)

    async def view_message(self, _id: str, *, decompress: bool) -> MessageExt:
        assert not decompress
        return MessageExt(TRANSACTION_OP_HALF_TOPIC, 0, 0, 0, body=b"0", properties={"TAGS": "d"})

    async def producers(self, _address: str) -> ProducerTableInfo:
        return ProducerTableInfo({})

    async def for_page(self) -> Sample:
        members = tuple(Member("G001", f"10.0.0.{number}@1", f"10.0.0.{number}:1") for number in range(100))
        return Sample(0.0, (BrokerSample("C", "broker-a", 0, "n:1", members=members),))


def keep_answers(cluster: Cluster) -> None:
    """Lets answers of a cluster never expire: on a slow machine a page would ask again for what it has asked for seconds ago."""
    read = cluster.read

    def read_once(key: tuple[Any, ...], fetch: Any, _fresh_s: float = 0, **_kept: float) -> Any:
        return read(key, fetch, inf)

    stand_in: Any = cluster
    stand_in.read = read_once


def requests_for(page: str, /, **arguments: str) -> Counter[str]:
    """The requests for a page as it is shown."""
    admin = CountingAdmin()
    stand_in: Any = admin

    async def main() -> None:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        cluster.admin = stand_in
        keep_answers(cluster)
        show = {
            "topics": TopicPages(cluster, stand_in).list_topics,
            "groups": GroupList(GroupReads(cluster), stand_in).show,
            "search": SearchPages(cluster, stand_in).show,
            "delays": DelayPages(cluster).show,
            "transactions": TransactionPages(cluster, BOOK).show,
        }[page]
        view = await show(Visit("", Access.VIEWER, "", {}, arguments))
        shown = [await table.select(arguments).fill() for table in view.tables]
        assert shown[0].rows

    asyncio.run(main())
    return admin.asked


def requests_of_pages(
    admin: CountingAdmin, folder: Path, parts: Mapping[str, str], *accepted: type[Exception]
) -> dict[str, Counter[str]]:
    """The requests for each page whose path has parts, or without `parts` for the others, by a console without a sample of the cluster.

    Pages may raise `accepted`. Those with parts have no problems.
    """
    stand_in: Any = admin
    counts: dict[str, Counter[str]] = {}

    async def main() -> None:
        console = make_console(ConsoleSettings(ConsoleConfig(), ClientConfig("127.0.0.1:1"), folder))
        console.cluster.admin = stand_in
        keep_answers(console.cluster)
        for route in console.routes:
            if isinstance(route, Query) and ("<" in route.path) == bool(parts):
                console.cluster.forget()
                admin.asked.clear()
                with suppress(*accepted):
                    view = await route.run(Visit("admin", Access.ADMIN, "", parts))
                    assert not parts or not view.problems, view.problems
                    for number, table in enumerate(view.tables):
                        await table.select({}, f"{table.name}." if number else "").fill()
                counts[route.path] = admin.asked.copy()
        console.close()

    folder.mkdir()
    asyncio.run(main())
    return counts


def test_pages_cost_the_same_for_any_number_of_topics_and_groups(tmp_path: Path) -> None:
    accepted = (NotFound, Invalid)  # a console without an appliance; charts without series
    few = requests_of_pages(CountingAdmin(200, 60), tmp_path / "few", {}, *accepted)
    many = requests_of_pages(CountingAdmin(), tmp_path / "many", {}, *accepted)
    assert few == many
    assert {path for path, asked in many.items() if asked.total() > 60 * len(BROKERS)} == {"/groups", "/transactions"}
    assert {"/", "/topics", "/groups", "/dead-letters", "/delays", "/cluster", "/replication", "/acl"} <= {
        path for path, asked in many.items() if asked
    }


@pytest.mark.parametrize("arguments", [{}, {"page": "30", "sort": "-topic"}, {"filter": "T19"}])
def test_list_of_topics_costs_a_request_for_each_shown_row_and_broker(arguments: dict[str, str]) -> None:
    asked = requests_for("topics", **arguments)
    assert asked["topic_stats"] == ROWS * len(BROKERS)
    assert asked.total() - asked["topic_stats"] <= 8


@pytest.mark.parametrize("arguments", [{}, {"page": "5"}, {"filter": "G4"}])
def test_list_of_groups_costs_a_few_requests_for_each_shown_row(arguments: dict[str, str]) -> None:
    asked = requests_for("groups", **arguments)
    assert asked["consumer_connection"] == ROWS * len(BROKERS)
    assert asked["consume_stats"] == ROWS * len(BROKERS)
    assert asked.total() <= 2 * len(BROKERS) * ROWS + 8


def test_delays_cost_a_few_requests_for_each_broker_and_level() -> None:
    assert requests_for("delays").total() <= len(BROKERS) * (3 + 2 * LEVELS) + 2


def test_transactions_cost_a_bounded_number_of_requests_however_many_there_are() -> None:
    asked = requests_for("transactions")
    assert asked["read_messages"] <= len(BROKERS) * 20
    assert asked["view_message"] <= len(BROKERS) * 256
    assert asked.total() - asked["read_messages"] - asked["view_message"] <= 20


def test_search_of_names_costs_the_same_for_any_number() -> None:
    assert requests_for("search", q="T19").total() <= 8
    assert requests_for("search", q="10.0.0.7").total() <= 8
