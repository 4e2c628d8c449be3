"""Which queue a message goes to."""

import pytest

from headrace import Message, MessageQueue
from headrace.client.cluster.routes import BrokerTable, Route, publish_queues, subscribe_queues
from headrace.client.sending.fault_tolerance import FaultTolerance, not_available_ms
from headrace.client.sending.queue_choice import QueueTurn, by_hash, java_hash
from headrace.protocol.bodies import BrokerData, QueueData, TopicRouteData

MESSAGE = Message("T", b"x")


def route(*brokers: str, queues: int = 2) -> TopicRouteData:
    return TopicRouteData(
        [QueueData(name, queues, queues, 6) for name in brokers],
        [BrokerData(name, "c", {0: f"{name}:1", 1: f"{name}:2"}) for name in brokers],
    )


def turn(*brokers: str, queues: int = 2) -> QueueTurn:
    data = route(*brokers, queues=queues)
    return QueueTurn(Route("T", data, publish_queues("T", data), subscribe_queues("T", data)))


def test_round_robin_continues_when_the_route_changes() -> None:
    first = turn("a", queues=4)
    taken = [first.next().queue_id for _ in range(2)]
    second = QueueTurn(turn("a", queues=4).route, first)
    assert sorted([*taken, second.next().queue_id, second.next().queue_id]) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("TagA", 2598919),
        ("order-100", -392797454),
        (5_000_000_000, 705032705),
        (-1, -1),
        (2**31, -(2**31)),
        (-(2**31) - 1, -(2**31)),
        (True, 1231),
        (False, 1237),
        (1.5, java_hash("1.5")),
    ],
)
def test_keys_are_hashed_as_java_hashes_them(key: object, value: int) -> None:
    assert java_hash(key) == value


def test_by_hash_uses_the_absolute_value_of_javas_remainder() -> None:
    queues = [MessageQueue("T", "a", number) for number in range(4)]
    assert by_hash(queues, MESSAGE, "order-100").queue_id == 392797454 % 4
    assert by_hash(queues, MESSAGE, "polygenelubricants").queue_id == 2**31 % 4


def test_publish_queues_lists_writable_queues_broker_by_broker() -> None:
    data = route("b", "a")
    data.queue_datas[0].perm = 4
    data.queue_datas.append(QueueData("slave-only", 2, 2, 6))
    data.broker_datas.append(BrokerData("slave-only", "c", {1: "s:1"}))
    assert [(queue.broker_name, queue.queue_id) for queue in publish_queues("T", data)] == [("a", 0), ("a", 1)]
    assert [queue.broker_name for queue in subscribe_queues("T", data)] == [
        "a",
        "a",
        "b",
        "b",
        "slave-only",
        "slave-only",
    ]
    data.order_topic_conf = "x:2;y:1"
    assert [str(queue) for queue in publish_queues("T", data)][-1] == "MessageQueue [topic=T, brokerName=y, queueId=0]"


def test_queues_are_used_in_turn_and_those_of_another_broker_after_a_failure() -> None:
    turns = turn("a", "b")
    assert len({turns.next() for _ in range(4)}) == 4
    assert {turns.next("a").broker_name for _ in range(8)} == {"b"}
    assert {turn("a").next("a").broker_name for _ in range(3)} == {"a"}, "the only one is better than none"


@pytest.mark.parametrize(("latency", "pause"), [(0, 0), (100, 0), (550, 30_000), (2999, 120_000), (15_000, 600_000)])
def test_latency_decides_how_long_a_broker_is_avoided(latency: int, pause: int) -> None:
    assert not_available_ms(latency) == pause


def test_available_brokers_are_preferred_and_then_the_better_half() -> None:
    faults, turns = FaultTolerance(), turn("a", "b", "c", "d")
    faults.update("a", 5, 0, is_failure=True)
    faults.update("b", 600, 0, is_failure=False)
    assert {turns.next_available(faults, 1).broker_name for _ in range(20)} == {"c", "d"}
    for name in ("c", "d"):
        faults.update(name, 5000, 0, is_failure=True)
    assert {turns.next_available(faults, 1).broker_name for _ in range(20)} == {"a", "b"}
    assert {turns.next_available(faults, 30_001).broker_name for _ in range(20)} == {"b"}
    assert {turns.next_available(faults, 600_001).broker_name for _ in range(20)} == {"a", "b", "c", "d"}


def test_broker_without_queues_is_removed_and_not_chosen() -> None:
    faults, turns = FaultTolerance(), turn("a")
    faults.update("gone", 1, 0, is_failure=True)
    faults.update("a", 2, 0, is_failure=True)
    assert turns.next_available(faults, 1).broker_name == "a"
    assert faults.is_available("gone", 1)


def test_broker_is_found_by_id_or_the_next_or_any() -> None:
    table = BrokerTable()
    table.learn(TopicRouteData([], [BrokerData("a", "c", {0: "m", 2: "s2"}), BrokerData("b", "c", {1: "s1"})]))
    assert table.master("a") == "m"
    assert table.master("b") is None
    assert table.find("a", 1) == ("s2", 2)
    assert table.find("a", 5) == ("m", 0)
    assert table.find("a", 5, only_this=True) is None
    assert table.find("b", 0) == ("s1", 1)
    assert table.all_addresses(only_masters=True) == ["m"]
    table.versions["m"] = 407
    table.keep_only({"s1"})
    assert table.all_addresses() == ["s1"]
    assert not table.versions
