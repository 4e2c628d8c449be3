"""The page of a topic over an Admin that answers from tables."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from headrace import BrokerError, RequestTimeout, RouteNotFound, TopicConfig
from headrace.client.settings import ClientConfig
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ClusterInfo, ConsumerConnection, ConsumerRunningInfo, TopicStatsTable
from headrace.protocol.bodies.connections import Connection
from headrace.protocol.bodies.consumer_state import ProcessQueueInfo
from headrace.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from headrace.protocol.bodies.stats import QueueTimeSpan, TopicOffset
from headrace.protocol.response_code import ResponseCode
from web.cluster.cluster import Cluster
from web.cluster.topic_reader import TopicReader
from web.errors import QueryFailed
from web.pages.cluster.stopped import StoppedBroker
from web.pages.groups.group_reads import GroupReads
from web.pages.topic_consumers import CONSUMER_COLUMNS, ConsumerRow, TopicConsumers
from web.pages.topics import SendForm, TopicForm, TopicPages
from web.routes import Access, Visit
from web.sampling.sample import BrokerSample, Progress, Sample, Traffic

QUEUE = MessageQueue("Orders", "a", 0)
SECOND = MessageQueue("Orders", "a", 1)


class Answers:
    """Stands for the Admin: a topic with ten messages, and eight groups, of which the last has consumed all."""

    async def masters(self) -> dict[str, str]:
        return {"a": "n:1"}

    async def system_topics(self) -> list[str]:
        return []

    async def topic_configs(self, _address: str) -> dict[str, TopicConfig]:
        return {"Orders": TopicConfig("Orders", 1, 1)}

    async def topic_stats(self, _topic: str, **_where: str) -> TopicStatsTable:
        return TopicStatsTable({QUEUE: TopicOffset(0, 10)})

    async def consumer_offsets(self, _address: str) -> dict[str, dict[str, dict[int, int]]]:
        return {f"g{number}": {"Orders": {0: number + 3}} for number in range(8)}

    async def consume_time_span(self, _topic: str, _group: str) -> list[QueueTimeSpan]:
        return [QueueTimeSpan(QUEUE, delay_time=9_000)]

    async def for_page(self) -> Sample | None:
        return None


def test_group_without_waiting_messages_has_no_delay_and_the_furthest_groups_are_drawn() -> None:
    stand_in: Any = Answers()

    async def main() -> tuple[Any, list[Any]]:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        cluster.admin = stand_in
        view = await TopicPages(cluster, stand_in).show_topic(Visit("", Access.VIEWER, "", {"topic": "Orders"}))
        return view, list((await view.tables[1].select({}).fill()).rows)

    view, rows = asyncio.run(main())
    assert [(row.group, row.lag, row.delay) for row in rows[:1] + rows[-1:]] == [("g0", 7, 9_000), ("g7", 0, 0)]
    [chart] = view.data["charts"].charts[1:]
    assert [line.label for line in chart.drawn] == [f"g{number}" for number in range(6)]
    assert [(first, last) for first, last, _ in chart.others] == [(7, 8)]


def test_chart_of_lags_begins_with_that_of_the_table_and_what_waits_in_other_topics() -> None:
    class Sampled(Answers):
        async def for_page(self) -> Sample:
            waiting = (("Orders", 99), ("Payments", 40), ("Refunds", 2))
            progress = tuple(Progress("g0", topic, lag, None, 0.0) for topic, lag in waiting)
            return Sample(7.0, (BrokerSample("C", "a", 0, "n:1", progress=progress),))

    def values(stand_in: Answers) -> list[float | None]:
        view = asyncio.run(pages_of(stand_in).show_topic(Visit("", Access.VIEWER, "", {"topic": "Orders"})))
        return [line.value for line in view.data["charts"].charts[1].lines[:2]]

    assert values(Sampled()) == [7 + 42, 6]
    assert values(Answers()) == [None, None]


def test_form_of_a_new_topic_and_the_api_have_the_same_defaults() -> None:
    class Empty(Answers):
        async def topics(self) -> list[str]:
            return []

        async def update_topic(self, config: TopicConfig, broker: str | None = None) -> None:
            assert broker is None
            made.append((config.read_queue_count, config.write_queue_count))

    made: list[tuple[int, int]] = []
    new = asyncio.run(pages_of(Empty()).list_topics(Visit("", Access.OPERATOR, ""))).data["new"]
    form = TopicForm("T")
    assert (new["read_queues"], new["write_queues"], new["permission"]) == (8, 8, form.permission)
    for one in (form, TopicForm("T", write_queues=3), TopicForm("T", write_queues=3, read_queues=5)):
        asyncio.run(pages_of(Empty()).create(Visit("", Access.OPERATOR, ""), one))
    assert made == [(8, 8), (3, 3), (5, 3)]


def test_names_who_reads_a_queue_of_a_group_without_members() -> None:
    (client,) = (column for column in CONSUMER_COLUMNS if column.key == "client")
    assert client.says is not None
    row = ConsumerRow("a", 0, "billing", 0)
    assert client.says(msgspec.structs.replace(row, members=0)) == ("no member connected", {})
    assert client.says(row) is client.says(msgspec.structs.replace(row, members=1)) is None


@pytest.mark.parametrize("reports_totals", [True, False])
def test_list_is_sorted_by_the_messages_that_topics_received(*, reports_totals: bool) -> None:
    class Sampled(Answers):
        async def topics(self) -> list[str]:
            return ["Idle", "Orders", "Payments"]

        async def for_page(self) -> Sample:
            progress = tuple(Progress("g", topic, 0, None, 0.0, end) for topic, end in (("Orders", 3), ("Payments", 5)))
            broker = BrokerSample("C", "a", 0, "n:1", topics=frozenset(await self.topics()), progress=progress)
            if reports_totals:
                broker = replace(broker, topic_in={"Orders": Traffic(30), "Payments": Traffic(50)})
            return Sample(7.0, (broker, replace(broker, name="b"), BrokerSample("C", "c", 0, "n:3", problem="gone")))

    view = asyncio.run(pages_of(Sampled()).list_topics(Visit("", Access.VIEWER, "")))
    rows = view.tables[0].select({"sort": "-received", "kind": "all"}).selected
    expected = (
        [("Payments", 100), ("Orders", 60), ("Idle", 0)]
        if reports_totals
        else [("Payments", 10), ("Orders", 6), ("Idle", None)]
    )
    assert [(row.topic, row.received) for row in rows] == expected
    assert (view.data["sampled_at"], view.problems) == (7_000, [])


def test_list_without_a_sample_names_what_cannot_be_sorted() -> None:
    class Listed(Answers):
        async def topics(self) -> list[str]:
            return ["Orders"]

    view = asyncio.run(pages_of(Listed()).list_topics(Visit("", Access.VIEWER, "")))
    assert "cannot be sorted by the messages that they received" in str(view.problems[0])


class Stopped(Answers):
    """Writes to the broker are stopped if its permission is 4."""

    def __init__(self, permission: str) -> None:
        self.permission = permission

    async def broker_config(self, _address: str) -> dict[str, str]:
        return {"brokerPermission": self.permission, "messageDelayLevel": "1s 5m"}

    async def runtime_info(self, _address: str) -> dict[str, str]:
        return {}

    async def topic_route(self, _topic: str) -> TopicRouteData:
        return TopicRouteData([QueueData("a", 1, 1, int(self.permission))])


class NoRoute:
    """A producer that finds no writable queue."""

    async def send(self, _message: object) -> None:
        raise RouteNotFound("the topic Orders has no writable queue", "Orders")


def pages_of(stand_in: Any) -> TopicPages:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    cluster.admin = stand_in

    async def producer() -> Any:
        return NoRoute()

    cluster.producer = producer  # type: ignore[method-assign]
    return TopicPages(cluster, stand_in)


def test_page_shows_that_writes_are_stopped_and_the_delays_of_the_levels() -> None:
    view = asyncio.run(pages_of(Stopped("4")).show_topic(Visit("", Access.OPERATOR, "", {"topic": "Orders"})))
    assert view.data["stopped"] == [StoppedBroker("a", "stopped on the broker", "/cluster/writes/a")]
    assert view.data["delay_levels"] == [(1, 1_000), (2, 300_000)]
    view = asyncio.run(pages_of(Answers()).show_topic(Visit("", Access.OPERATOR, "", {"topic": "Orders"})))
    assert (view.data["stopped"], view.data["delay_levels"]) == ([], [])


def test_message_that_is_not_sent_because_writes_are_stopped_is_refused_with_this_reason() -> None:
    visit = Visit("", Access.OPERATOR, "", {"topic": "Orders"})
    with pytest.raises(QueryFailed, match="writes to a are stopped"):
        asyncio.run(pages_of(Stopped("4")).send(visit, SendForm("x")))
    with pytest.raises(RouteNotFound):
        asyncio.run(pages_of(Stopped("6")).send(visit, SendForm("x")))


class Consumed(Answers):
    """Two queues; `g0` has a member that reads the second one, `new` is online without an offset."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def topics(self) -> list[str]:
        return ["Orders"]

    async def topic_groups(self, _topic: str) -> list[str]:
        return ["g0", "new"]

    async def topic_stats(self, _topic: str, **_where: str) -> TopicStatsTable:
        return TopicStatsTable({QUEUE: TopicOffset(0, 10), SECOND: TopicOffset(4, 9)})

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo({"a": BrokerData("a", "C", {0: "n:1"})})

    async def consumer_connection(self, group: str, *, broker: str) -> ConsumerConnection:
        self.asked.append(group)
        if group != "g0":
            raise BrokerError.of(ResponseCode.CONSUMER_NOT_ONLINE, broker)
        return ConsumerConnection([Connection("one", "10.0.0.1:4"), Connection("mute", "10.0.0.2:4")])

    async def running_info(self, _group: str, client: str, **_what: bool) -> ConsumerRunningInfo:
        if client == "mute":
            raise RequestTimeout("no answer")
        return ConsumerRunningInfo(mq_table={SECOND: ProcessQueueInfo()})


def consumers(stand_in: Consumed, **arguments: str) -> list[Any]:
    async def main() -> list[Any]:
        visit = Visit("", Access.VIEWER, "", {"topic": "Orders"}, arguments)
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        admin: Any = stand_in
        cluster.admin = admin
        view = await TopicConsumers(TopicReader(cluster), GroupReads(cluster)).show(visit)
        return list((await view.tables[0].select(arguments).fill()).rows)

    return asyncio.run(main())


def test_consumers_of_a_queue_have_reader_lag_and_what_could_not_be_read() -> None:
    rows = {row.group: row for row in consumers(Consumed(), broker="a", queue="1")}
    assert [row.queue for row in rows.values()] == [1] * 9
    assert (rows["g0"].client, rows["g0"].lag) == ("one", 5)
    assert "mute did not answer" in rows["g0"].problem
    assert (rows["g1"].client, rows["g1"].lag, rows["g1"].problem) == (None, 5, "")
    assert rows["new"].lag is None


def test_consumers_are_asked_for_the_groups_of_the_shown_rows_only() -> None:
    stand_in = Consumed()
    rows = consumers(stand_in, size="25", filter="g7")
    assert [(row.queue, row.group, row.lag, row.delay) for row in rows] == [(0, "g7", 0, 0), (1, "g7", 5, None)]
    assert stand_in.asked == ["g7"]
