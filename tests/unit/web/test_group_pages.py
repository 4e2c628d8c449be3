"""Pages of consumer groups over an Admin that answers from tables."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from headrace import BrokerError, BrokerNotFound, RequestTimeout, SubscriptionGroupConfig
from headrace.client.settings import ClientConfig
from headrace.model.consumption import ConsumeType, MessageModel
from headrace.model.message_queue import MessageQueue
from headrace.model.subscription import SubscriptionData
from headrace.protocol.bodies import (
    ClusterInfo,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    TopicStatsTable,
)
from headrace.protocol.bodies.connections import Connection
from headrace.protocol.bodies.consumer_state import ConsumeStatus, ProcessQueueInfo
from headrace.protocol.bodies.route import BrokerData
from headrace.protocol.bodies.stats import OffsetWrapper, QueueTimeSpan, TopicOffset
from headrace.protocol.response_code import ResponseCode
from web.cluster.cluster import Cluster
from web.errors import NotFound, QueryFailed
from web.pages.groups.group_list import GroupList
from web.pages.groups.group_page import GroupPage, QueueRow, consumption_of, find_slow_members
from web.pages.groups.group_reads import GroupReads
from web.pages.groups.member_page import queue_rows as member_queue_rows
from web.routes import Access, Problem, View, Visit
from web.sampling.past_members import PastMembers
from web.sampling.sample import BrokerSample, ClientKind, Member, Progress, Sample
from web.translations import translator

ORDERS = [MessageQueue("Orders", "broker-a", at) for at in range(2)]


class Answers:
    """Stands for the Admin: a group with one member that reads one of two queues."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failure: Exception | None = None
        self.retries: dict[str, TopicStatsTable] = {}
        # The first queue's is of a moment before, when a message waited.
        self.delays = {ORDERS[0]: 4_000, ORDERS[1]: 90_000}
        self.configs: dict[str, dict[str, SubscriptionGroupConfig] | Exception] = {
            "n:1": {
                "billing": SubscriptionGroupConfig("billing"),
                "TOOLS_CONSUMER": SubscriptionGroupConfig("TOOLS_CONSUMER"),
            }
        }
        self.connection = ConsumerConnection(
            [Connection("one", "10.0.0.1:4", version=453)],
            {},
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
        )
        self.stats = ConsumeStats({ORDERS[0]: OffsetWrapper(10, 10, 5), ORDERS[1]: OffsetWrapper(10, 3, 4)}, 1.5)
        progress = (Progress("billing", "Orders", 7, 90_000, 0.0),)
        self.sample: Sample | None = Sample(1.0, (BrokerSample("C", "broker-a", 0, "n:1", progress=progress),))
        self.running: dict[str, ConsumerRunningInfo] = {
            "one": ConsumerRunningInfo(
                {"PROP_CONSUMER_START_TIMESTAMP": "77"},
                [SubscriptionData("Orders", "A||B")],
                {ORDERS[0]: ProcessQueueInfo()},
            )
        }

    async def masters(self) -> dict[str, str]:
        return {f"broker-{number}": address for number, address in enumerate(self.configs)}

    async def group_configs(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        answer = self.configs[address]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def consumer_connection(self, group: str, *, broker: str) -> ConsumerConnection:
        self.asked.append(group)
        if (group, broker) != ("billing", "n:1"):
            raise BrokerError.of(ResponseCode.CONSUMER_NOT_ONLINE, "not online")
        return self.connection

    async def cluster_info(self) -> ClusterInfo:
        names = {f"broker-{letter}": address for letter, address in zip("abc", self.configs, strict=False)}
        return ClusterInfo({name: BrokerData(name, "C", {0: address}) for name, address in names.items()})

    async def consume_stats(self, group: str, *, broker: str) -> ConsumeStats:
        if self.failure is not None:
            raise self.failure
        return self.stats if (group, broker) == ("billing", "n:1") else ConsumeStats()

    async def topics(self) -> list[str]:
        return ["Orders", *self.retries]

    async def topic_stats(self, topic: str, *, broker: str) -> TopicStatsTable:
        if broker != "n:1":
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        return self.retries[topic]

    async def consume_time_span(self, topic: str, _group: str) -> list[QueueTimeSpan]:
        if topic != "Orders":
            return []
        return [QueueTimeSpan(queue, delay_time=delay) for queue, delay in self.delays.items()]

    async def for_page(self) -> Sample | None:
        return self.sample

    async def running_info(self, _group: str, client: str, *, with_stacks: bool) -> ConsumerRunningInfo:
        assert not with_stacks
        if client not in self.running:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, f"{client} did not answer")
        return self.running[client]


def reads(answers: Answers) -> GroupReads:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = answers
    cluster.admin = stand_in
    return GroupReads(cluster)


def rows(view: View, name: str, arguments: Mapping[str, str] | None = None) -> list[Any]:
    table = next(table for table in view.tables if table.name == name)
    return list(asyncio.run(table.select(arguments or {}).fill()).rows)


def listed(answers: Answers, **arguments: str) -> tuple[View, list[Any]]:
    async def main() -> tuple[View, list[Any]]:
        stand_in: Any = answers
        view = await GroupList(reads(answers), stand_in).show(Visit("", Access.VIEWER, ""))
        return view, list((await view.tables[0].select(arguments).fill()).rows)

    return asyncio.run(main())


def shown(answers: Answers, group: str = "billing", past: PastMembers | None = None) -> View:
    return asyncio.run(
        GroupPage(reads(answers), past or PastMembers()).show(Visit("", Access.VIEWER, "", {"group": group}))
    )


def test_list_has_state_members_mode_and_lag_in_messages_and_time() -> None:
    _, (row,) = listed(Answers())
    assert (row.group, row.state, row.members, row.mode) == ("billing", "online", 1, "clustering")
    assert (row.lag, row.delay, row.rate, row.topics, row.problem) == (7, 90_000, 1.5, ["Orders"], "")


def test_page_names_the_members_that_left_with_the_queues_that_they_read() -> None:
    past, answers = PastMembers(), Answers()
    members = (
        Member("billing", "one", "10.0.0.1:4"),
        Member("billing", "two", "10.0.0.2:5"),
        Member("audit", "three", "10.0.0.3:6"),
        Member("billing", "four", "10.0.0.4:7", is_producer=True),
    )
    past.follow(Sample(100.0, (BrokerSample("C", "broker-a", 0, "n:1", members=members),)), {})
    assert [row.client for row in rows(shown(answers, past=past), "left")] == ["two"]
    answers.connection.connection_set.clear()
    past.follow(Sample(110.0, (BrokerSample("C", "broker-a", 0, "n:1", members=members[1:2]),)), {})
    assert [(row.client, row.address, row.seen, row.queues) for row in rows(shown(answers, past=past), "left")] == [
        ("two", "10.0.0.2:5", 110_000, []),
        ("one", "10.0.0.1:4", 100_000, ["Orders broker-a 0"]),
    ]


@pytest.mark.parametrize(
    ("threads", "told"),
    [("2", "1,000.0 ms per message with 2 threads."), ("0", "1,000.0 ms per message.")],
)
def test_page_explains_the_lag_of_slow_members(threads: str, told: str) -> None:
    answers = Answers()
    answers.running["one"].properties["PROP_THREADPOOL_CORE_SIZE"] = threads
    answers.running["one"].status_table = {
        "Orders": ConsumeStatus(consume_rt=500.0, consume_ok_tps=3.0),
        "%RETRY%billing": ConsumeStatus(consume_rt=2_500.0, consume_failed_tps=1.0),
    }
    findings = [translator("en")(one.text, **one.values) for one in shown(answers).data["findings"]]
    rate = "7 messages wait. The members (1) consume 4.0 messages per second:"
    advice = "If the lag grows, add members or threads, or make the handler faster."
    assert f"{rate} {told} {advice}" in findings


def test_page_names_members_that_finish_nothing() -> None:
    answers = Answers()
    answers.running["one"].status_table = {"Orders": ConsumeStatus()}
    findings = [translator("en")(one.text, **one.values) for one in shown(answers).data["findings"]]
    assert any(text.startswith("7 messages wait, and the connected members (1) finished none") for text in findings)


def test_page_does_not_explain_a_short_lag() -> None:
    slow = ConsumerRunningInfo(status_table={"Orders": ConsumeStatus(consume_rt=500.0, consume_ok_tps=3.0)})
    row = QueueRow("Orders", "broker-a", 0, 7, 9_999, 3, 10, 4, "one")
    assert find_slow_members({"one": slow}, [row]) == []
    assert find_slow_members({}, [msgspec.structs.replace(row, delay=90_000)]) == []
    assert len(find_slow_members({"one": slow}, [msgspec.structs.replace(row, delay=10_000)])) == 1


def stuck_and_busy() -> Answers:
    """Both members of the group lag: `one` has finished nothing in queue 0 for 25 s, `two` works on queue 1."""
    answers = Answers()
    answers.connection.connection_set.append(Connection("two", "10.0.0.2:4"))
    answers.stats.offset_table[ORDERS[0]] = OffsetWrapper(30, 10, 5)
    answers.delays[ORDERS[0]] = 30_000
    rates = {"Orders": ConsumeStatus(consume_rt=500.0, consume_ok_tps=3.0)}
    times = {"cached_msg_count": 20, "last_pull_timestamp": 100_000}
    answers.running["one"].mq_table = {ORDERS[0]: ProcessQueueInfo(**times, last_consume_timestamp=75_000)}
    answers.running["one"].status_table = rates
    answers.running["two"] = ConsumerRunningInfo(
        {},
        [SubscriptionData("Orders", "A||B")],
        {ORDERS[1]: ProcessQueueInfo(**times, last_consume_timestamp=99_000)},
        rates,
    )
    return answers


def told_by(answers: Answers) -> list[tuple[str, str]]:
    return [(translator("en")(one.text, **one.values), one.member) for one in shown(answers).data["findings"]]


def test_page_names_the_stuck_member_and_its_queues_in_the_first_minute() -> None:
    (stuck, member), (rest, _) = told_by(stuck_and_busy())
    assert member == "one"
    assert stuck.startswith(
        "one has pulled 20 messages and finished none of them for 25 s. Its queues that do not move: Orders broker-a 0."
    )
    assert rest.startswith("7 messages wait. The members (1) consume 3.0 messages per second:")


def test_member_whose_threads_are_busy_with_other_queues_is_not_stuck() -> None:
    answers = stuck_and_busy()
    answers.running["one"].mq_table[ORDERS[1]] = answers.running.pop("two").mq_table[ORDERS[1]]
    answers.connection.connection_set.pop()
    ((text, _),) = told_by(answers)
    assert text.startswith("27 messages wait. The members (1) consume 3.0 messages per second:")
    answers.stats.offset_table[ORDERS[1]] = OffsetWrapper(
        10, 10, 4
    )  # nothing waits there: its threads could do the rest
    assert told_by(answers)[0][0].startswith("one has pulled 20 messages and finished none of them for 25 s.")


def test_page_does_not_blame_members_whose_queues_do_not_lag_for_a_stuck_one() -> None:
    answers = stuck_and_busy()
    answers.stats.offset_table[ORDERS[1]] = OffsetWrapper(10, 10, 4)
    assert [member for _, member in told_by(answers)] == ["one"]


def test_page_names_the_member_that_finished_nothing_in_the_last_minute() -> None:
    answers = stuck_and_busy()
    answers.running["one"].mq_table = {ORDERS[0]: ProcessQueueInfo()}  # a client that reports no times
    answers.running["one"].status_table = {"Orders": ConsumeStatus()}
    (text, member), _ = told_by(answers)
    assert member == "one"
    assert text.startswith("one finished no message in the last minute. Its queues that do not move: Orders")


def test_page_names_the_member_that_does_not_answer_and_the_queues_that_nobody_reports() -> None:
    answers = stuck_and_busy()
    del answers.running["one"]
    answers.stats.offset_table[ORDERS[1]] = OffsetWrapper(10, 10, 4)
    ((text, _),) = told_by(answers)
    assert text.startswith("one did not answer. No other member reports these queues, in which messages wait: Orders")
    assert shown(answers).data["has_unreported"]
    assert not shown(stuck_and_busy()).data["has_unreported"]


def test_many_stuck_members_are_counted() -> None:
    queues = [MessageQueue("Orders", "broker-a", at) for at in range(8)]
    state = ProcessQueueInfo(cached_msg_count=1, last_pull_timestamp=50_000, last_consume_timestamp=1)
    reports = {f"m{at}": ConsumerRunningInfo(mq_table={queue: state}) for at, queue in enumerate(queues)}
    found = find_slow_members(
        reports, [QueueRow("Orders", "broker-a", at, 7, 20_000, 3, 10, 4, f"m{at}") for at in range(8)]
    )
    assert [one.member for one in found] == ["m0", "m1", "m2", "m3", "m4", ""]
    assert found[-1].values == {"count": 3}


def test_member_has_never_consumed_from_a_queue_whose_offset_is_the_first() -> None:
    report = ConsumerRunningInfo(
        mq_table={
            ORDERS[0]: ProcessQueueInfo(commit_offset=0, last_consume_timestamp=5),
            ORDERS[1]: ProcessQueueInfo(commit_offset=3, last_consume_timestamp=6),
        }
    )
    assert [row.consumed_at for row in member_queue_rows(report)] == [None, 6]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("-lag", ["slow", "late", "billing", "idle"]),
        ("-delay", ["late", "slow", "billing", "idle"]),
        ("-members", ["slow", "billing", "idle", "late"]),
    ],
)
def test_list_is_sorted_by_figures_of_the_last_sample(sort: str, expected: list[str]) -> None:
    answers = Answers()
    answers.configs["n:1"] = {name: SubscriptionGroupConfig(name) for name in ("billing", "idle", "late", "slow")}
    progress = (
        Progress("billing", "Orders", 5, 90_000, 0.0),
        Progress("late", "Orders", 7, 900_000, 0.0),
        Progress("slow", "Orders", 9, 100_000, 0.0),
    )
    members = Counter({ClientKind("slow", "JAVA", "V4_9_8", "PUSH"): 2})
    answers.sample = Sample(9.0, (BrokerSample("C", "a", 0, "n:1", progress=progress, consumers=members),))
    view, found = listed(answers, sort=sort)
    assert [row.group for row in found] == expected
    assert view.data["sampled_at"] == 9_000
    # What is shown of a group is read again: only its time lag is from the sample.
    (row,) = (row for row in found if row.group == "billing")
    assert (row.members, row.lag, row.delay) == (1, 7, 90_000)
    _, found = listed(answers, state="online")
    assert [row.group for row in found] == ["slow"]


def test_time_lag_of_messages_that_came_after_the_sample_is_unknown() -> None:
    answers = Answers()
    progress = (Progress("billing", "Orders", 0, 0, 0.0),)
    answers.sample = Sample(1.0, (BrokerSample("C", "broker-a", 0, "n:1", progress=progress),))
    _, (row,) = listed(answers)
    assert (row.lag, row.delay) == (7, None)


def test_list_without_a_sample_is_a_problem() -> None:
    answers = Answers()
    answers.sample = None
    view, (row,) = listed(answers)
    (problem,) = view.problems
    assert isinstance(problem, Problem)
    assert problem.values == {"seconds": "4"}
    assert (row.lag, row.delay) == (7, None)


def test_list_shows_system_groups_only_on_request() -> None:
    _, (row,) = listed(Answers(), kind="system")
    assert (row.group, row.state, row.members, row.mode, row.lag, row.delay) == (
        "TOOLS_CONSUMER",
        "offline",
        0,
        None,
        0,
        0,
    )


def test_list_asks_about_the_shown_groups_only() -> None:
    answers = Answers()
    answers.configs["n:1"] = {f"group-{number:03}": SubscriptionGroupConfig("x") for number in range(500)}
    listed(answers, size="25", page="2")
    assert sorted(answers.asked) == [f"group-{number:03}" for number in range(25, 50)]


def test_group_that_never_consumed_is_offline_without_lag() -> None:
    answers = Answers()
    answers.configs["n:1"] = {"never": SubscriptionGroupConfig("never")}
    _, (row,) = listed(answers)
    assert (row.state, row.lag, row.problem) == ("offline", 0, "")


def test_row_whose_requests_failed_says_why() -> None:
    answers = Answers()

    answers.failure = RequestTimeout("broker-a did not answer")
    _, (row,) = listed(answers)
    assert (row.lag, row.problem) == (7, "broker-a did not answer")  # that of the sample


def test_broker_that_cannot_be_read_is_a_problem_and_none_that_can_an_error() -> None:
    answers = Answers()
    answers.configs["n:2"] = BrokerNotFound("n:2 is down", None)
    view, _ = listed(answers)
    assert view.problems == ["broker-1 (n:2): n:2 is down"]
    del answers.configs["n:1"]
    with pytest.raises(QueryFailed, match="n:2 is down"):
        listed(answers)


def test_group_has_lag_and_owner_of_each_queue() -> None:
    view = shown(Answers())
    first, second = rows(view, "queues")
    assert (first.queue, first.lag, first.delay, first.client) == (1, 7, 90_000, None)
    assert (second.queue, second.lag, second.delay, second.client) == (0, 0, 0, "one")
    (member,) = rows(view, "members")
    assert (member.client, member.queues, member.started, member.problem) == ("one", 1, 77, "")
    assert view.data["summary"]["delay"] == 90_000


def test_queues_of_a_group_without_members_are_read_by_nobody() -> None:
    answers = Answers()
    (client,) = (column for column in shown(answers).tables[0].columns if column.key == "client")
    assert client.none == "not reported by members"
    answers.connection.connection_set.clear()
    (client,) = (column for column in shown(answers).tables[0].columns if column.key == "client")
    assert client.none == "no member connected"


def test_progress_of_a_group_without_a_retry_topic_is_read_at_every_broker() -> None:
    answers = Answers()
    answers.configs = {"n:0": {}} | answers.configs
    assert {(row.topic, row.lag) for row in rows(shown(answers), "queues")} == {("Orders", 7), ("Orders", 0)}
    (row,) = listed(answers)[1]
    assert (row.lag, row.topics) == (7, ["Orders"])


def test_messages_of_the_retry_topic_are_counted_before_the_group_has_an_offset_there() -> None:
    answers = Answers()
    retries = [MessageQueue("%RETRY%billing", "broker-a", at) for at in range(2)]
    answers.retries = {
        "%RETRY%billing": TopicStatsTable({retries[0]: TopicOffset(2, 5), retries[1]: TopicOffset(0, 0)})
    }
    view = shown(answers)
    assert view.data["summary"]["lag"] == 10
    (row,) = (row for row in rows(view, "queues") if row.topic == "%RETRY%billing")
    assert (row.lag, row.consumer_offset, row.broker_offset) == (3, 2, 5)
    assert [row.lag for row in listed(answers)[1]] == [10]

    answers.stats.offset_table[retries[0]] = OffsetWrapper(5, 4)
    assert shown(answers).data["summary"]["lag"] == 8


def test_time_of_a_queue_that_was_reset_to_its_first_message_is_unknown() -> None:
    answers = Answers()
    answers.stats.offset_table[ORDERS[1]] = OffsetWrapper(10, 0, 0)
    assert {(row.queue, row.consumed_at) for row in rows(shown(answers), "queues")} == {(0, 5), (1, None)}


def test_charts_begin_with_the_figures_that_the_page_shows() -> None:
    data = shown(Answers()).data
    lag, delay = (data["charts"].charts[number].lines[0].value for number in range(2))
    assert (lag, delay) == (data["summary"]["lag"], data["summary"]["delay"]) == (7, 90_000)


def test_queue_without_a_reader_is_found() -> None:
    (finding,) = shown(Answers()).data["findings"]
    assert finding.text.startswith("{count} queues have no consumer")
    assert finding.values == {"count": 1, "queue": 1, "topic": "Orders", "broker": "broker-a"}


def test_queues_are_not_reported_without_a_reader_if_a_member_did_not_answer() -> None:
    answers = Answers()
    answers.connection.connection_set.append(Connection("two", "10.0.0.2:4"))
    view = shown(answers)
    assert not any("have no consumer" in one.text for one in view.data["findings"])
    (problem,) = view.problems
    assert "two did not answer" in problem
    assert [bool(row.problem) for row in rows(view, "members")] == [False, True]


def test_different_subscriptions_are_found() -> None:
    answers = Answers()
    answers.connection.connection_set.append(Connection("two", "10.0.0.2:4"))
    answers.running["two"] = ConsumerRunningInfo({}, [SubscriptionData("Orders", "A")], {ORDERS[1]: ProcessQueueInfo()})
    view = shown(answers)
    assert [(row.expression, row.members, row.is_consistent) for row in rows(view, "subscriptions")] == [
        ("A", ["two"], False),
        ("A||B", ["one"], False),
    ]
    (finding,) = view.data["findings"]
    assert finding.values == {"topics": "Orders"}


def test_client_id_of_two_connections_is_found() -> None:
    answers = Answers()
    answers.connection.connection_set.append(Connection("one", "10.0.0.2:4"))
    texts = [finding.text for finding in shown(answers).data["findings"]]
    assert texts[0].startswith("{count} connections use the client id {client}")


def test_unknown_group_is_not_found() -> None:
    with pytest.raises(NotFound, match="the consumer group unknown does not exist"):
        shown(Answers(), "unknown")


def test_consumption_is_paused_at_all_brokers_at_some_or_at_none() -> None:
    enabled, paused = SubscriptionGroupConfig("g"), SubscriptionGroupConfig("g", consume_enable=False)
    assert consumption_of({}) is None
    assert consumption_of({"a": enabled, "b": enabled}) == "allowed"
    assert consumption_of({"a": enabled, "b": paused}) == "paused on some brokers"
    assert consumption_of({"a": paused}) == "paused"
