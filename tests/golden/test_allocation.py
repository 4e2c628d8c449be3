"""The six allocation strategies agree with the official client's for 1,000 random groups (`allocation/README.md`)."""

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.client.consuming.allocation import (
    Allocator,
    ConsistentHash,
    Fixed,
    MachineRoom,
    MachineRoomNearby,
    allocate,
    averagely,
    averagely_by_circle,
)
from headrace.model.message_queue import MessageQueue

Line = dict[str, Any]
TABLE = Path(__file__).with_name("allocation") / "allocation.jsonl.xz"
LINES: list[Line] = [json.loads(line) for line in lzma.decompress(TABLE.read_bytes()).splitlines()]


def _queues(line: Line) -> list[MessageQueue]:
    places = (place.rpartition(":") for place in line["queues"])
    return [MessageQueue(line["topic"], broker, int(number)) for broker, _, number in places]


def _nearby(inner: Allocator) -> MachineRoomNearby:
    return MachineRoomNearby(
        inner, lambda queue: "room " + queue.broker_name.split("@")[0], lambda member: "room " + member.split("!")[0]
    )


STRATEGIES: dict[str, Callable[[Line, list[MessageQueue]], Allocator]] = {
    "averagely": lambda _line, _queues: averagely,
    "circle": lambda _line, _queues: averagely_by_circle,
    "consistentHash": lambda line, _queues: ConsistentHash(line["nodes"]),
    "machineRoom": lambda line, _queues: MachineRoom(frozenset(line["rooms"])),
    "nearby": lambda _line, _queues: _nearby(averagely),
    "nearbyCircle": lambda _line, _queues: _nearby(averagely_by_circle),
    "config": lambda line, queues: Fixed([queues[place] for place in line["fixed"]]),
}


def test_reference_data_has_one_thousand_groups() -> None:
    assert len(LINES) == 1000
    assert set(LINES[0]["shares"]) == set(STRATEGIES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "consistentHash" else []) for name in STRATEGIES]
)
def test_every_member_gets_the_same_queues_as_in_java(name: str) -> None:
    for line in LINES:
        queues = _queues(line)
        strategy = STRATEGIES[name](line, queues)
        for asker, places in zip(line["askers"], line["shares"][name], strict=True):
            share = strategy("group-1", asker, queues, line["members"])
            assert [queues.index(queue) for queue in share] == places, (asker, line)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "config"])
def test_allocation_does_not_depend_on_the_order_of_queues_and_members(name: str) -> None:
    for line in LINES[::50]:
        queues = _queues(line)
        strategy = STRATEGIES[name](line, queues)
        asker, places = line["askers"][0], line["shares"][name][0]
        share = allocate(strategy, "group-1", asker, reversed(queues), reversed(line["members"]))
        assert share == [queues[place] for place in places]
