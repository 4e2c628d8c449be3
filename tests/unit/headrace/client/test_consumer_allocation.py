"""Allocation: the worked examples of the specification. (A thousand random groups are in tests/golden.)"""

import pytest

from headrace import ConfigError, Fixed, MachineRoom, MachineRoomNearby, MessageQueue, averagely, averagely_by_circle
from headrace.client.consuming.allocation import Allocator, ConsistentHash, _hash


def queues(*brokers: str, count: int) -> list[MessageQueue]:
    return [MessageQueue("TopicTest", broker, number) for broker in brokers for number in range(count)]


def shares(allocator: Allocator, count: int, members: int) -> list[list[int]]:
    ids = [f"c{number}" for number in range(members)]
    return [[queue.queue_id for queue in allocator("g", one, queues("a", count=count), ids)] for one in ids]


@pytest.mark.parametrize(
    ("count", "members", "runs", "circle"),
    [
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]], [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]], [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]),
        (7, 2, [[0, 1, 2, 3], [4, 5, 6]], [[0, 2, 4, 6], [1, 3, 5]]),
        (3, 5, [[0], [1], [2], [], []], [[0], [1], [2], [], []]),
    ],
)
def test_allocation_averagely_and_averagely_by_circle(
    count: int, members: int, runs: list[list[int]], circle: list[list[int]]
) -> None:
    assert shares(averagely, count, members) == runs
    assert shares(averagely_by_circle, count, members) == circle


def test_allocation_by_consistent_hashing() -> None:
    assert _hash("192.168.0.1@c1-0") == 729287814
    assert _hash(str(MessageQueue("TopicTest", "broker-a", 0))) == 1987926524
    assert _hash(str(MessageQueue("TopicTest", "broker-b", 1))) == 672344976
    members = [f"192.168.0.1@c{number}" for number in (1, 2, 3)]
    all_queues = queues("broker-a", "broker-b", count=4)
    places = [
        [f"{q.broker_name[-1]}{q.queue_id}" for q in ConsistentHash()("g", one, all_queues, members)] for one in members
    ]
    assert places == [["a0", "b1"], ["a2", "a3", "b2"], ["a1", "b0", "b3"]]
    assert ConsistentHash(0)("g", members[0], all_queues, members) == []


def test_allocation_by_machine_room() -> None:
    some = [*queues("b9", count=1), *queues("r1@b0", count=3), *queues("r2@b0", count=2)]

    def of(rooms: set[str], member: str) -> list[str]:
        return [
            f"{queue.broker_name}:{queue.queue_id}" for queue in MachineRoom(rooms)("g", member, some, ["c0", "c1"])
        ]

    assert of({"r1"}, "c0") == ["r1@b0:0", "r1@b0:2"]
    assert of({"r1"}, "c1") == ["r1@b0:1"]
    assert of({"r1", "r2"}, "c0") == ["r1@b0:0", "r1@b0:1", "r2@b0:1"]
    assert of({"r1", "r2"}, "c1") == ["r1@b0:2", "r2@b0:0"]


def test_allocation_by_nearby_machine_room() -> None:
    some = [*queues("r1", count=4), *queues("r2", count=4), *queues("r3", count=2)]
    nearby = MachineRoomNearby(averagely, lambda queue: queue.broker_name, lambda member: member.split("-")[0])
    members = ["r1-c0", "r1-c1", "r2-c0"]
    places = [[f"{q.broker_name}:{q.queue_id}" for q in nearby("g", one, some, members)] for one in members]
    assert places == [["r1:0", "r1:1", "r3:0"], ["r1:2", "r1:3", "r3:1"], ["r2:0", "r2:1", "r2:2", "r2:3"]]
    nowhere = MachineRoomNearby(averagely, lambda _: "", lambda _: "r")
    with pytest.raises(ConfigError, match="no machine room"):
        nowhere("g", "r1-c0", some, members)


def test_fixed_queues_do_not_depend_on_members() -> None:
    mine = queues("A", count=2)
    assert Fixed(mine)("g", "c9", queues("B", count=5), ["c0"]) == mine
