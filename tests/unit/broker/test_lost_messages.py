"""What consumer groups lose by a forced deletion, counted before it."""

import asyncio
import logging
from pathlib import Path

import pytest

from broker.clients.offsets import OffsetTable
from broker.findings.lost_messages import DELAY_LEVELS, KIND, LostMessages
from broker.json_file import JsonFile
from headrace.model.names import SCHEDULE_TOPIC
from support.loops import until


class Control:
    """What housekeeper and broker have published."""

    min_offset = 0
    forced_offset = 0
    losses_counted_offset = 0


class Queues:
    """Queue 0 of each topic: message `n` lies at `n * 100`, and the queue begins at `least`."""

    def __init__(self) -> None:
        self.least, self.most = 0, 50
        self.missing_before = 0

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:  # noqa: ARG002
        return (self.least, self.most) if queue_id == 0 else (0, 0)

    def entry(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:  # noqa: ARG002
        return None if queue_offset < self.missing_before else (queue_offset * 100, 100, 0)


class World:
    def __init__(self, folder: Path) -> None:
        self.control, self.queues = Control(), Queues()
        self.offsets = OffsetTable(JsonFile(folder / "consumerOffset.json"))
        self.delays: dict[int, int] = {}
        self.lost = self.another()

    def another(self, *before: dict[str, object]) -> LostMessages:
        return LostMessages(self.control, self.queues, self.offsets, lambda: self.delays, self.counted, before)

    def counted(self, offset: int) -> None:
        self.control.losses_counted_offset = offset

    def force(self, end: int) -> None:
        self.control.forced_offset = end
        asyncio.run(self.lost.count())
        self.control.min_offset = end

    def told(self) -> dict[tuple[str, str], int]:
        return {(finding.group, finding.about): finding.count for finding in self.lost.findings()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_lost_messages_are_those_between_the_offset_and_the_new_minimum(world: World) -> None:
    world.offsets.commit("behind", "T", 0, 3)
    world.offsets.commit("done", "T", 0, 20)
    world.force(1000)
    assert world.told() == {("behind", "T"): 7}
    assert world.control.losses_counted_offset == 1000
    world.force(2000)
    assert world.told() == {("behind", "T"): 17}
    world.force(2500)
    assert world.told() == {("behind", "T"): 22, ("done", "T"): 5}


def test_messages_deleted_before_are_not_counted_again(world: World) -> None:
    world.offsets.commit("far behind", "T", 0, 0)
    world.control.min_offset = 2000
    world.queues.least = 5  # a queue whose messages are all gone keeps its minimum
    world.queues.missing_before = 15
    world.force(2100)
    assert world.told() == {("far behind", "T"): 1}


def test_loss_of_all_messages_of_a_queue_is_counted(world: World) -> None:
    world.offsets.commit("g", "T", 0, 45)
    world.force(100_000)
    assert world.told() == {("g", "T"): 5}


def test_undelivered_delayed_messages_are_counted(world: World) -> None:
    world.delays[1] = 4
    world.force(1000)
    assert world.told() == {(DELAY_LEVELS, SCHEDULE_TOPIC): 6}


def test_each_loss_logs_a_warning(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world.offsets.commit("g", "T", 0, 3)
    world.force(1000)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "group=g topic=T lost=7 min_offset=1000" in record.getMessage()
    caplog.clear()
    world.offsets.commit("g", "T", 0, 30)
    world.force(2000)
    assert "no group lost messages" in caplog.messages[0]


def test_restarted_broker_continues_the_count(world: World) -> None:
    world.lost = world.another({"kind": KIND, "group": "g", "about": "T", "count": 7}, {"kind": "other"})
    world.offsets.commit("g", "T", 0, 3)
    world.control.min_offset = 1000
    world.force(1200)
    assert world.told() == {("g", "T"): 9}


def test_counting_begins_when_a_deletion_is_announced(world: World) -> None:
    async def announce() -> None:
        keeping = asyncio.create_task(world.lost.keep())
        await asyncio.sleep(0)
        world.control.forced_offset = 1000
        await until(lambda: world.control.losses_counted_offset == 1000)
        keeping.cancel()

    asyncio.run(announce())


def test_deletion_that_did_not_wait_for_the_count_is_acknowledged_without_a_count(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.offsets.commit("g", "T", 0, 3)
    world.control.min_offset = 1000
    world.force(1000)
    assert (world.told(), caplog.messages, world.control.losses_counted_offset) == ({}, [], 1000)
