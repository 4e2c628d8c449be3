"""When delayed messages are delivered, and what is stored then (store spec 10.3, 10.4). The clock is ours."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.delays.delay_offsets import DelayOffsets
from broker.delays.delivered_copies import LevelsFile
from broker.delays.delivery import DelayDelivery, Delivered
from broker.json_file import JsonFile
from headrace.model.message import MessageExt
from headrace.model.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC
from headrace.protocol.record import decode_records
from store.commit_log.message import MessageToStore, PutResult
from store.status import PutMessageStatus
from support.damage import damage
from support.loops import until
from support.small_broker import Peer, SmallBroker

LEVELS_MS = (1000, 5000)


class Scene:
    """A small broker, the delivery over it, and a clock."""

    def __init__(self, broker: SmallBroker) -> None:
        self.broker = broker
        self.refusal: PutMessageStatus | None = None
        self.now_ms = 0
        self.unreadable: list[tuple[int, int, int]] = []
        self.start()
        broker.topic()
        self.client: Peer = broker.connect()

    def start(self) -> None:
        """A new broker process over the same store: what was in memory is gone."""
        broker = self.broker
        self.offsets = DelayOffsets(
            JsonFile(broker.paths.config_file("delayOffset.json")), LevelsFile(broker.paths.root / "timer" / "levels")
        )
        self.delivery = DelayDelivery(
            LEVELS_MS,
            self.offsets,
            broker.queues,
            self.append,
            broker.appender.log.queues_of(SCHEDULE_TOPIC.encode()).next_offset,
            broker.reader,
            lambda: broker.control.wrote_offset,
            clock_ms=lambda: self.now_ms,
            unreadable=lambda *told: self.unreadable.append(told),
        )
        broker.loop.run_until_complete(self.delivery.look_up())

    def save(self) -> None:
        self.offsets.persist(self.delivery.unknown_since())

    def deliver_all(self, level: int) -> None:
        offset = self.offsets.next_offset(level)
        while (found := self.delivery.deliver(level, offset)).wait_s == 0:
            offset = found.offset

    def append(self, message: MessageToStore) -> PutResult | None:
        return PutResult(self.refusal) if self.refusal is not None else self.broker.appender.append(message)

    def send(self, level: int, body: bytes = b"late", more: str = "") -> MessageExt:
        self.client.send(body, i=f"DELAY\x01{level}{more}", queue_id=3, h=5, f=0x1)
        record = self.broker.record()
        self.broker.dispatch()
        self.now_ms = record.store_timestamp
        return record

    def delivered_behind(self, record: MessageExt) -> list[bytes]:
        """What has been delivered behind a record; the log before it may be damaged."""
        end = record.physical_offset + record.size_bytes
        data = self.broker.reader.read(end, self.broker.control.wrote_offset - end)
        return [found.body for found in decode_records(bytes(data or b""))]

    def delivered(self) -> list[bytes]:
        return [record.body for record in self.broker.records() if record.topic == "T"]


@pytest.fixture
def scene(make_broker: Callable[..., SmallBroker]) -> Scene:
    return Scene(make_broker(store={"message_delay_level": "1s 5s"}))


def test_message_is_delivered_at_its_due_time_and_not_before(scene: Scene) -> None:
    scene.send(1)
    assert scene.delivery.deliver(1, 0) == Delivered(0, 1.0)
    scene.now_ms += 999
    assert scene.delivery.deliver(1, 0) == Delivered(0, 0.001)
    assert scene.delivered() == []
    scene.now_ms += 1
    assert scene.delivery.deliver(1, 0) == Delivered(1, 0)
    assert scene.delivered() == [b"late"]
    assert scene.offsets.table() == {1: 1}
    assert scene.delivery.deliver(1, 1) == Delivered(1, None)


def test_delivered_message_has_its_original_properties(scene: Scene) -> None:
    waiting = scene.send(1, more="\x02TAGS\x01a\x02WAIT\x01true")
    scene.now_ms += 1000
    scene.delivery.deliver(1, 0)
    message = scene.broker.record()
    assert (message.topic, message.queue_id, message.queue_offset) == ("T", 3, 0)
    assert message.properties_raw == waiting.properties_raw
    assert message.properties.keys() == {"DELAY", "TAGS", "WAIT", "CLUSTER", "REAL_TOPIC", "REAL_QID"}
    for name in (
        "body",
        "flag",
        "sys_flag",
        "born_timestamp",
        "born_host",
        "store_host",
        "reconsume_times",
        "body_crc",
    ):
        assert getattr(message, name) == getattr(waiting, name)


def test_long_sleep_is_divided_to_notice_a_clock_set_forward(scene: Scene) -> None:
    scene.send(2)
    wait_s = scene.delivery.deliver(2, 0).wait_s
    assert wait_s is not None
    assert 0 < wait_s <= 1


def test_message_is_delivered_at_once_after_the_clock_was_set_back(scene: Scene) -> None:
    scene.send(1)
    scene.now_ms -= 60_000
    assert scene.delivery.deliver(1, 0) == Delivered(1, 0)


def test_level_is_delivered_in_chunks(scene: Scene) -> None:
    for number in range(100):
        scene.send(1, b"%d" % number)
    scene.now_ms += 1000
    first = scene.delivery.deliver(1, 0)
    assert first.wait_s == 0
    assert 0 < first.offset < 100
    second = scene.delivery.deliver(1, first.offset)
    assert scene.delivered() == [b"%d" % number for number in range(second.offset)]
    assert second.offset == 100


def test_failed_delivery_is_retried(scene: Scene) -> None:
    scene.send(1)
    scene.now_ms += 1000
    scene.refusal = PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert scene.delivery.deliver(1, 0) == Delivered(0, 0.1)
    assert scene.offsets.table() == {}
    scene.refusal = None
    assert scene.delivery.deliver(1, 0) == Delivered(1, 0)


def test_half_messages_and_messages_without_a_destination_are_skipped(scene: Scene) -> None:
    for text in (
        f"DELAY\x011\x02REAL_TOPIC\x01{TRANSACTION_HALF_TOPIC}\x02REAL_QID\x010",
        "DELAY\x011",
        "DELAY\x011\x02REAL_TOPIC\x01T",
    ):
        scene.broker.appender.append(MessageToStore(SCHEDULE_TOPIC, 0, b"lost", text.encode()))
    scene.send(1)
    scene.now_ms += 1000
    assert scene.delivery.deliver(1, 0) == Delivered(4, 0)
    assert scene.delivered() == [b"late"]


def test_damaged_record_is_skipped_and_later_ones_are_delivered(scene: Scene) -> None:
    records = [scene.send(1, b"%d" % number) for number in range(4)]
    damage(scene.broker.paths.commit_log, scene.broker.file_size, records[1].physical_offset, 60)
    scene.now_ms += 1000
    assert scene.delivery.deliver(1, 0) == Delivered(4, 0)
    assert scene.delivered_behind(records[3]) == [b"0", b"2", b"3"]
    assert scene.unreadable == [(0, 1, records[1].physical_offset)]


def test_delivery_waits_for_dispatch(scene: Scene) -> None:
    scene.client.send(i="DELAY\x011")
    found = scene.delivery.deliver(1, 0)
    assert found.offset == 0
    assert found.wait_s is not None
    assert 0 < found.wait_s < 0.1


def test_offsets_outside_their_queues_are_corrected(scene: Scene) -> None:
    scene.send(1)
    scene.offsets.move(1, 17)
    scene.offsets.move(2, 5)
    scene.offsets.clamp(scene.broker.queues.bounds)
    assert scene.offsets.table() == {1: 1, 2: 0}


def test_offsets_are_stored_in_apaches_format(tmp_path: Path) -> None:
    path = tmp_path / "config" / "delayOffset.json"
    offsets = DelayOffsets(JsonFile(path))
    offsets.persist(0)
    assert not path.exists()
    offsets.move(3, 8)
    offsets.move(1, 11)
    offsets.persist(0)
    assert path.read_text() == '{\n\t"offsetTable":{3:8,1:11\n\t}\n}'
    assert DelayOffsets(JsonFile(path)).table() == {1: 11, 3: 8}


def test_offsets_are_not_written_before_delivered_messages_are_durable(tmp_path: Path) -> None:
    path = tmp_path / "config" / "delayOffset.json"
    offsets = DelayOffsets(JsonFile(path))
    there_when_asked: list[bool] = []

    def flushed_offset() -> int:
        there_when_asked.append(path.exists())
        return 0 if len(there_when_asked) < 5 else 100

    async def scenario() -> None:
        keeping = asyncio.create_task(offsets.keep(0.001, lambda: 100, lambda: 100, flushed_offset))
        offsets.move(1, 7)
        await until(path.exists)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    asyncio.run(scenario())
    assert there_when_asked == [False] * 5
    assert DelayOffsets(JsonFile(path)).table() == {1: 7}


def test_append_wakes_a_sleeping_level(scene: Scene) -> None:
    async def scenario() -> None:
        scene.broker.appender.on_append(SCHEDULE_TOPIC, lambda message, _: scene.delivery.appended(message.queue_id))
        running = asyncio.create_task(scene.delivery.run())
        await asyncio.sleep(0)
        scene.now_ms += 3_000_000_000_000  # whatever is stored is long due
        message = MessageToStore(SCHEDULE_TOPIC, 1, b"now", b"DELAY\x012\x02REAL_TOPIC\x01T\x02REAL_QID\x010")
        scene.broker.appender.append(message)
        scene.broker.dispatch()
        await until(scene.delivered)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    scene.broker.loop.run_until_complete(scenario())
    assert scene.delivered() == [b"now"]


@pytest.mark.parametrize("saved_after", range(4))
@pytest.mark.parametrize("delivered", range(4))
def test_kill_causes_no_duplicate_delivery(scene: Scene, saved_after: int, delivered: int) -> None:
    for number in range(4):
        scene.send(1, b"%d" % number, more=f"\x02UNIQ_KEY\x01U{number % 2}")  # some are alike but for their bodies
    scene.now_ms += 1000
    scene.offsets.move(2, 0)
    scene.save()
    for number in range(delivered):
        if number == saved_after:
            scene.save()
        entry = scene.broker.queues.entry(SCHEDULE_TOPIC, 0, number)
        assert entry is not None
        scene.delivery._deliver_one(1, number, entry[0], scene.broker.reader.read(*entry[:2]))
        scene.offsets.move(1, number + 1)
    assert len(scene.delivered()) == delivered
    scene.start()
    scene.deliver_all(1)
    assert scene.delivered() == [b"0", b"1", b"2", b"3"]
    # Caught up and saved, killed once more.
    scene.save()
    scene.start()
    scene.deliver_all(1)
    assert len(scene.delivered()) == 4


@pytest.mark.parametrize("failures", range(4))
def test_kill_between_the_writes_of_both_files_causes_no_duplicate_delivery(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    for number in range(6):
        scene.send(1, b"%d" % number)
    scene.offsets.move(2, 0)
    scene.save()

    def deliver_and_save(number: int) -> None:
        entry = scene.broker.queues.entry(SCHEDULE_TOPIC, 0, number)
        assert entry is not None
        scene.delivery._deliver_one(1, number, entry[0], scene.broker.reader.read(*entry[:2]))
        scene.offsets.move(1, number + 1)
        scene.save()

    scene.now_ms += 1000
    deliver_and_save(0)
    # The levels are written, and the offsets are not.
    with monkeypatch.context() as patch:
        patch.setattr(scene.offsets._file, "save", fail)
        for number in range(failures):
            with pytest.raises(OSError, match="no space"):
                deliver_and_save(number + 1)
    scene.start()
    scene.deliver_all(1)
    assert scene.delivered() == [b"%d" % number for number in range(6)]


def fail(_text: str) -> None:
    raise OSError(errno.ENOSPC, "no space")


def test_older_table_is_not_written_after_a_newer_one(scene: Scene) -> None:
    scene.offsets.move(1, 1)
    older = scene.offsets._take_snapshot()
    scene.offsets.move(1, 2)
    scene.offsets.persist(20)
    scene.offsets._write(older, 10)
    scene.start()
    assert (scene.offsets.table(), scene.offsets.unknown_since) == ({1: 2}, 20)


def test_equal_messages_are_all_delivered(scene: Scene) -> None:
    for _ in range(3):
        scene.broker.appender.append(
            MessageToStore(SCHEDULE_TOPIC, 0, b"same", b"DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x010")
        )
    scene.broker.dispatch()
    scene.now_ms = scene.broker.record().store_timestamp + 1000
    scene.offsets.move(2, 0)
    scene.save()
    scene.delivery._deliver_one(1, 0, 0, scene.broker.reader.read(0, scene.broker.record().size_bytes))
    scene.start()
    scene.deliver_all(1)
    assert scene.delivered() == [b"same"] * 3


def read_since_start(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> int:
    """The lowest physical offset that a new broker reads when it looks for deliveries; -1 if it reads nothing."""
    read: list[int] = []
    read_on = scene.broker.reader.read_on
    monkeypatch.setattr(scene.broker.reader, "read_on", lambda offset: read.append(offset) or read_on(offset))  # type: ignore[func-returns-value]
    scene.start()
    return min(read, default=-1)


def test_log_is_not_searched_if_no_message_waits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.offsets.move(2, 0)
    scene.save()
    scene.client.send(b"at once", queue_id=0)
    assert scene.offsets.unknown_since is None
    assert read_since_start(scene, monkeypatch) == -1
    assert scene.offsets.unknown_since == 0


def test_log_is_searched_from_the_first_waiting_message(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.offsets.move(2, 0)
    scene.save()
    for _ in range(5):
        scene.client.send(b"at once", queue_id=0)
    waiting = scene.send(1)
    assert read_since_start(scene, monkeypatch) == waiting.physical_offset > 0


def test_progress_is_written_again_when_the_log_has_grown(scene: Scene) -> None:
    scene.offsets.move(1, 1)
    scene.offsets.persist(100)
    for end, expected in ((200, 100), (100 << 20, 100 << 20)):
        scene.offsets.persist(end)
        scene.start()
        assert scene.offsets.unknown_since == expected


def test_offsets_written_by_another_broker_are_used(scene: Scene) -> None:
    scene.send(1)
    scene.now_ms += 1000
    scene.save()
    scene.deliver_all(1)
    path = scene.broker.paths.config_file("delayOffset.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"offsetTable":{1:0,2:0}}')
    scene.start()
    assert scene.offsets.unknown_since is None
    scene.deliver_all(1)
    assert len(scene.delivered()) == 2
