"""Resets of offsets over an Admin that answers from tables."""

import asyncio
import datetime as dt
from typing import Any

import pytest

from headrace import ConfigError, OffsetChange, SubscriptionGroupConfig
from headrace.client.settings import ClientConfig
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ClusterInfo, ConsumerConnection, ConsumeStats, OffsetWrapper
from headrace.protocol.bodies.connections import Connection
from headrace.protocol.bodies.route import BrokerData
from web.cluster.cluster import Cluster
from web.errors import Invalid
from web.pages.groups.group_reads import GroupReads
from web.pages.groups.resets import Clone, Reset, Resets, parse_time
from web.routes import Access, Outcome, View, Visit

QUEUES = [MessageQueue("Orders", "broker-a", at) for at in range(2)]


class Answers:
    """Stands for the Admin: two queues, the offsets of two groups."""

    def __init__(self) -> None:
        self.offsets = {("billing", QUEUES[0]): 5, ("audit", QUEUES[1]): 8}
        self.connection = ConsumerConnection()
        self.consumed = QUEUES

    async def preview_reset(self, group: str, _topic: str, moment: int) -> list[OffsetChange]:
        target = 10 if moment == -1 else 2
        # Brokers answer 0 for a queue without an offset.
        return [OffsetChange(queue, 2, 10, self.offsets.get((group, queue), 0), target) for queue in QUEUES]

    async def masters(self) -> dict[str, str]:
        return {"broker-a": "n:1"}

    async def consumer_offsets(self, _address: str) -> dict[str, dict[str, dict[int, int]]]:
        found: dict[str, dict[str, dict[int, int]]] = {}
        for (group, queue), offset in self.offsets.items():
            found.setdefault(group, {}).setdefault(queue.topic, {})[queue.queue_id] = offset
        return found

    async def group_configs(self, _address: str) -> dict[str, SubscriptionGroupConfig]:
        return {name: SubscriptionGroupConfig(name) for name in ("billing", "audit", "idle")}

    async def reset_offsets(self, _group: str, _topic: str, moment: int) -> dict[MessageQueue, int]:
        return dict.fromkeys(QUEUES, moment)

    async def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        self.offsets[group, queue] = offset

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo({"broker-a": BrokerData("broker-a", "C", {0: "n:1"})})

    async def consume_stats(self, _group: str, *, broker: str) -> ConsumeStats:
        assert broker == "n:1"
        retries = MessageQueue("%RETRY%billing", "broker-a", 0)
        return ConsumeStats({queue: OffsetWrapper() for queue in (retries, *self.consumed)})

    async def consumer_connection(self, _group: str, *, broker: str) -> ConsumerConnection:
        assert broker == "n:1"
        return self.connection


NOW = 1_795_424_400_000  # 2026-11-23 09:00 UTC


def preview(answers: Answers, page: str = "show", **arguments: str) -> dict[str, Any]:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = answers
    cluster.admin = stand_in
    visit = Visit("ann", Access.OPERATOR, "", {"group": "billing"}, arguments)

    async def main() -> View:
        view: View = await getattr(Resets(GroupReads(cluster), lambda: NOW), page)(visit)
        return view

    return dict(asyncio.run(main()).data)


def test_only_topic_of_the_group_is_offered_and_retry_topics_come_last() -> None:
    answers = Answers()
    data = preview(answers)
    assert (data["topics"], data["only_topic"]) == (["Orders", "%RETRY%billing"], "Orders")
    answers.consumed = [*QUEUES, MessageQueue("Bills", "broker-a", 0)]
    data = preview(answers)
    assert (data["topics"], data["only_topic"]) == (["Bills", "Orders", "%RETRY%billing"], "")


@pytest.mark.parametrize(
    ("time", "is_future", "day_before"),
    [
        ("2026-11-23 08:59", False, None),
        ("2026-11-23 17:00", True, NOW - 16 * 3_600_000),
        ("2026-12-24 09:00", True, None),
    ],
)
def test_preview_warns_of_a_time_in_the_future(time: str, is_future: bool, day_before: int | None) -> None:
    data = preview(Answers(), topic="Orders", to="time", time=time)
    assert (data["is_future"], data["day_before"]) == (is_future, day_before)


@pytest.mark.parametrize(
    ("arguments", "obstacle"),
    [
        ({"to": "time", "time": "2026-12-24 09:00"}, "The offsets are not reset to a time in the future."),
        ({"to": "start"}, ""),
        ({"to": "offset", "offset": "5", "broker": "broker-a", "queue": "0"}, "Nothing would change:"),
    ],
)
def test_preview_says_why_there_is_nothing_to_confirm(arguments: dict[str, str], obstacle: str) -> None:
    data = preview(Answers(), topic="Orders", **arguments)
    assert data["obstacle"][: len(obstacle)] == obstacle
    assert bool(data["obstacle"]) == bool(obstacle)


def carry_out(answers: Answers, change: Reset | Clone) -> Outcome:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = answers
    cluster.admin = stand_in
    visit = Visit("ann", Access.OPERATOR, "", {"group": "billing"})

    async def main() -> Outcome:
        resets = Resets(GroupReads(cluster))
        return await (resets.run(visit, change) if isinstance(change, Reset) else resets.run_clone(visit, change))

    return asyncio.run(main())


def test_outcome_has_the_offsets_before_and_after_for_the_audit_log() -> None:
    outcome = carry_out(Answers(), Reset("Orders", "offset", offset=4))
    assert outcome.before == {"Orders broker-a 0": 5, "Orders broker-a 1": 0}
    assert outcome.after == {"Orders broker-a 0": 4, "Orders broker-a 1": 4}


def test_offset_of_one_queue_is_reset_within_its_bounds() -> None:
    answers = Answers()
    carry_out(answers, Reset("Orders", "offset", offset=0, broker="broker-a", queue=1))
    assert answers.offsets["billing", QUEUES[1]] == 2
    assert answers.offsets["billing", QUEUES[0]] == 5


def test_offsets_are_copied_for_the_queues_that_the_other_group_has() -> None:
    answers = Answers()
    outcome = carry_out(answers, Reset("Orders", "group", source="audit"))
    assert (outcome.before, outcome.after) == ({"Orders broker-a 1": None}, {"Orders broker-a 1": 8})
    assert answers.offsets["billing", QUEUES[0]] == 5
    assert outcome.message.format(**outcome.values) == "Queues whose offsets were copied from audit to billing: 1."


@pytest.mark.parametrize("target", ["audit", "new"])
def test_offsets_are_cloned_to_another_group_and_the_source_keeps_its_own(target: str) -> None:
    answers = Answers()
    data = preview(answers, "show_clone", topic="Orders", target=target)
    assert (data["clone"], data["is_new"]) == ({"topic": "Orders", "target": target}, target == "new")
    assert (target, QUEUES[0]) not in answers.offsets

    outcome = carry_out(answers, Clone("Orders", target))
    assert (outcome.before, outcome.after) == ({"Orders broker-a 0": None}, {"Orders broker-a 0": 5})
    assert outcome.location == f"/groups/{target}"
    assert {group: offset for (group, queue), offset in answers.offsets.items() if queue == QUEUES[0]} == {
        "billing": 5,
        target: 5,
    }


@pytest.mark.parametrize("target", ["", "no spaces", "billing", "TOOLS_CONSUMER"])
def test_clone_to_an_invalid_group_changes_nothing(target: str) -> None:
    answers = Answers()
    before = dict(answers.offsets)
    with pytest.raises((Invalid, ConfigError)):
        carry_out(answers, Clone("Orders", target))
    assert answers.offsets == before


def test_clone_to_a_group_with_connected_members_is_refused_in_the_preview() -> None:
    answers = Answers()
    answers.connection.connection_set.append(Connection("one", "10.0.0.1:4"))
    with pytest.raises(Invalid, match="the group audit has 1 connected members"):
        preview(answers, "show_clone", topic="Orders", target="audit")


@pytest.mark.parametrize(("members", "told"), [(0, "No member is connected"), (1, "The members continue")])
def test_outcome_says_when_the_group_continues(members: int, told: str) -> None:
    answers = Answers()
    answers.connection.connection_set += [Connection("one", "10.0.0.1:4")] * members
    outcome = carry_out(answers, Reset("Orders", "start"))
    assert told in outcome.message
    assert len(outcome.after) == 2


@pytest.mark.parametrize(
    ("reset", "cause"),
    [
        (Reset("Orders", "offset"), "the offset is missing"),
        (Reset("Orders", "offset", offset=4, queue=1), "broker and queue must be entered together"),
        (Reset("Orders", "offset", offset=4, broker="broker-a", queue=9), "has no queue 9"),
        (Reset("Orders", "group"), "the source group is missing"),
        (Reset("Orders", "group", source="billing"), "the offsets of billing cannot be copied to the group itself"),
        (Reset("Orders", "group", source="nobody"), "the consumer group nobody does not exist"),
        (Reset("Orders", "group", source="idle"), "the group idle has no offsets"),
        (Reset("Orders", "time", time="soon"), "'soon' is not a valid time"),
        (Reset("Orders", "start", broker="broker-a", queue=1), "the fields broker, queue do not apply"),
        (Reset("Orders", "time", time="2026-11-23", source="audit"), "the fields source do not apply"),
    ],
)
def test_invalid_reset_changes_nothing(reset: Reset, cause: str) -> None:
    answers = Answers()
    before = dict(answers.offsets)
    with pytest.raises(Invalid, match=cause):
        carry_out(answers, reset)
    assert answers.offsets == before


def test_stored_offsets_of_a_group_with_connected_members_are_not_changed() -> None:
    answers = Answers()
    answers.connection.connection_set.append(Connection("one", "10.0.0.1:4"))
    before = dict(answers.offsets)
    with pytest.raises(Invalid, match="1 connected members"):
        carry_out(answers, Reset("Orders", "offset", offset=4))
    assert answers.offsets == before


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2026-11-23T09:00", 1_795_424_400_000),
        ("2026-11-23T09:00:00", 1_795_424_400_000),
        ("2026-11-23T17:00:00+08:00", 1_795_424_400_000),
        ("2026-11-23T09:00:00Z", 1_795_424_400_000),
        ("2026/11/23 09:00:00", 1_795_424_400_000),
        ("1795424400000", 1_795_424_400_000),
        ("1969-01-01T00:00:00", 0),
    ],
)
def test_times_are_utc_unless_they_have_a_zone(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize("text", ["2026-11-23", "2026/11/23"])
def test_date_is_the_beginning_of_its_day_or_its_end(text: str) -> None:
    assert parse_time(text) == 1_795_392_000_000
    assert parse_time(text, is_end=True) == 1_795_392_000_000 + 86_400_000 - 1


def test_end_with_a_time_of_day_is_that_time() -> None:
    assert parse_time("2026-11-23 00:00", is_end=True) == 1_795_392_000_000
    assert parse_time("1795392000000", is_end=True) == 1_795_392_000_000


def test_end_of_the_last_day_is_refused() -> None:
    with pytest.raises(Invalid):
        parse_time("9999-12-31T99", is_end=True)


def test_time_of_day_is_of_today() -> None:
    before = dt.datetime.now(dt.UTC).replace(hour=9, minute=0, second=0, microsecond=0)
    parsed = parse_time("9:00")
    after = dt.datetime.now(dt.UTC).replace(hour=9, minute=0, second=0, microsecond=0)
    assert before.timestamp() * 1000 <= parsed <= after.timestamp() * 1000
    assert parse_time("09:00") == parsed or before != after
    assert parse_time("9:00:07") == parse_time("09:00:07") == parsed + 7_000 or before != after


@pytest.mark.parametrize(
    "text", ["", "nine o'clock", "9" * 5000, "²", "9:00:75", "9:00:00:00", "0001-01-01T00:00:00+23:59:99"]
)
def test_invalid_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_time(text)
    assert "2026-11-23 09:00:00" in caught.value.advice


def test_form_is_opened_for_the_way_in_the_address() -> None:
    assert preview(Answers())["to"] == "time"
    cloned = preview(Answers(), to="group")
    assert (cloned["to"], cloned["reset"]) == ("group", {})  # without a topic there is no preview
