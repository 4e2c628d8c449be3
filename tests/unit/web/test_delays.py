"""Pages of delay levels and timers, over an Admin that answers from tables."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import BrokerError, MessageQueue
from headrace.client.settings import ClientConfig
from headrace.errors import RemotingError
from headrace.model.names import SCHEDULE_TOPIC
from headrace.protocol.bodies import ClusterInfo, TopicStatsTable
from headrace.protocol.bodies.route import BrokerData
from headrace.protocol.bodies.stats import ConsumeQueueData, TopicOffset
from headrace.protocol.response_code import ResponseCode
from web.cluster.cluster import Cluster
from web.errors import NotFound, QueryFailed
from web.pages.messages.message_row import MessageRow
from web.pages.waiting.delay_pages import DelayPages, still_waiting
from web.pages.waiting.delay_reads import LevelRow, levels_of
from web.routes import Access, View, Visit

DUE_MS = 1_800_000_000_000


def row(number: int, **properties: str) -> MessageRow:
    return MessageRow(f"id-{number}", "rmq_sys_wheel_timer", 5, 5, "", [], 0, number, 0, 0, "", "", properties)


def test_level_waits_from_what_is_delivered_and_still_stored_to_the_end_of_its_queue() -> None:
    runtime = {"scheduleMessageOffset_1": "17,20", "scheduleMessageOffset_3": "nonsense", "putTps": "1 2 3"}
    queues = {0: TopicOffset(0, 21), 1: TopicOffset(0, 4), 2: TopicOffset(6, 8)}
    assert levels_of("broker-a", "1s 5m 2h 1d", runtime, queues) == [
        LevelRow("broker-a", 1, 1_000, 4, 17),
        LevelRow("broker-a", 2, 300_000, 4, 0),  # nothing was ever delivered
        LevelRow("broker-a", 3, 7_200_000, 2, 6),
        LevelRow("broker-a", 4, 86_400_000, 0, 0),
    ]
    assert levels_of("broker-a", "1 fortnight", runtime, queues) == []


@pytest.mark.parametrize("target", ["Orders+id-1", "id-1"])
def test_cancelled_timer_and_its_cancellation_are_not_listed(target: str) -> None:
    due = {"TIMER_OUT_MS": str(DUE_MS), "REAL_TOPIC": "Orders"}
    rows = [row(1, **due), row(2, **due), row(3, **due, TIMER_DEL_UNIQKEY=target)]
    assert [(one.id, one.due_at, one.topic) for one in still_waiting(rows)] == [("id-2", DUE_MS, "Orders")]


class Answers:
    """Stands for the Admin: two masters with a delay level each; the second does not know timers."""

    def __init__(self, *silent: str) -> None:
        self.silent = silent
        self.has_levels = True

    async def masters(self) -> dict[str, str]:
        return {"broker-a": "a:1", "broker-b": "b:1"}

    async def topics(self) -> list[str]:
        return ["Orders"]

    async def cluster_info(self) -> ClusterInfo:
        table = {name: BrokerData(name, "C", {0: address}) for name, address in (await self.masters()).items()}
        return ClusterInfo(table, {"C": list(table)})

    async def runtime_info(self, address: str) -> dict[str, str]:
        if address in self.silent:
            raise RemotingError("no answer")
        return {"timerCongestNum": "7"} if address == "a:1" else {}

    async def broker_config(self, _address: str) -> dict[str, str]:
        return {"messageDelayLevel": "1s"}

    async def topic_stats(self, topic: str, *, broker: str) -> TopicStatsTable:
        if not self.has_levels:
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, "no such topic")
        name = "broker-a" if broker == "a:1" else "broker-b"
        return TopicStatsTable({MessageQueue(topic, name, 0): TopicOffset(2, 5)})

    async def consume_queue(self, queue: MessageQueue, offset: int, _count: int) -> Any:
        if queue.broker_name == "broker-b":
            raise RemotingError("too slow")
        assert queue.topic == SCHEDULE_TOPIC
        return SimpleNamespace(queue_data=[ConsumeQueueData(0, 100, DUE_MS + offset)])


def pages_of(answers: Answers) -> DelayPages:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = answers
    cluster.admin = stand_in
    return DelayPages(cluster)


def shown(answers: Answers) -> tuple[View, list[Any]]:
    async def main() -> tuple[View, list[Any]]:
        view = await pages_of(answers).show(Visit("ann", Access.VIEWER, ""))
        return view, list((await view.tables[0].select({}).fill()).rows)

    return asyncio.run(main())


def test_levels_have_the_times_of_their_first_and_last_message_from_the_index() -> None:
    view, (first, second) = shown(Answers())
    assert (first.waiting, first.next_due, first.last_due, first.problem) == (3, DUE_MS + 2, DUE_MS + 4, "")
    assert (second.next_due, second.problem) == (None, "too slow")
    assert [(one.broker, one.waiting) for one in view.tables[1].rows] == [("broker-a", 7)]
    assert view.data["without_timers"] == ["broker-b"]
    assert view.problems == []


def test_broker_without_delayed_messages_has_empty_levels() -> None:
    answers = Answers()
    answers.has_levels = False
    _, rows = shown(answers)
    assert [(one.waiting, one.next_due, one.problem) for one in rows] == [(0, None, "")] * 2


def test_broker_that_does_not_answer_is_a_problem_and_none_at_all_an_error() -> None:
    view, rows = shown(Answers("b:1"))
    assert view.problems == ["broker-b (b:1): no answer"]
    assert [one.broker for one in rows] == ["broker-a"]
    with pytest.raises(QueryFailed, match="broker-a"):
        shown(Answers("a:1", "b:1"))


def test_timers_page_says_which_brokers_do_not_support_timers() -> None:
    view = asyncio.run(pages_of(Answers()).show_timers(Visit("ann", Access.VIEWER, "")))
    assert (view.data["is_used"], view.data["without_timers"]) == (False, ["broker-b"])
    assert view.tables[0].empty == "No timer message has been stored yet."  # said once, by the table


@pytest.mark.parametrize(("broker", "level"), [("broker-a", "2"), ("broker-x", "1")])
def test_unknown_level_is_not_found(broker: str, level: str) -> None:
    visit = Visit("ann", Access.VIEWER, "", {"broker": broker, "level": level})
    with pytest.raises(NotFound):
        asyncio.run(pages_of(Answers()).show_level(visit))
