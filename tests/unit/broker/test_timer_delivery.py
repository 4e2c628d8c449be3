"""Messages at any time over a real store: when they are delivered, cancelled, and found again after deaths (docs/storage/timers.md)."""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.timers.bucket_files import SPAN_MS, BucketFiles
from broker.timers.checkpoint import CheckpointFile
from broker.timers.delivery import TimerDelivery
from broker.timers.rocketmq5_progress import Rocketmq5Progress, read_progress
from headrace.model.message import MessageExt
from headrace.model.names import TIMER_TOPIC
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from ipc.publish.flush import FlushPublisher
from store.commit_log.message import MessageToStore, PutResult
from store.status import PutMessageStatus
from support.loops import until
from support.small_broker import Peer, SmallBroker


class Scene:
    """A small broker, and the delivery over it, which can die and be started again."""

    def __init__(self, broker: SmallBroker) -> None:
        self.broker = broker
        self.refusal: PutMessageStatus | None = None
        self.dies_after: int | None = None
        self.rocketmq5: Rocketmq5Progress | None = None
        # However slow the machine is, nothing becomes due but by `deliver`.
        broker.stands_at_ms = broker.clock_ms()
        broker.topic()
        self.client: Peer = broker.connect()
        self.start()

    def start(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """A new broker process over the same store: what was in memory is gone. `meanwhile` is done before timers are found again."""
        broker = self.broker
        directory = broker.paths.root / "timer"
        self.delivery = TimerDelivery(
            BucketFiles(directory),
            CheckpointFile(directory),
            broker.queues,
            broker.reader,
            broker.control,
            self.append,
            lambda: broker.appender.log.queues_of(TIMER_TOPIC.encode()).next_offset(0),
            clock_ms=broker.clock_ms,
            rocketmq5_progress=lambda: self.rocketmq5,
            stored=broker.stats.timer_stored,
        )
        broker.appender.on_append(TIMER_TOPIC, self.delivery.appended)
        broker.dispatch()
        meanwhile()
        self.run(self.delivery.recover())

    def append(self, message: MessageToStore) -> PutResult | None:
        if self.dies_after is not None:
            if self.dies_after == 0:
                raise KeyboardInterrupt
            self.dies_after -= 1
        return PutResult(self.refusal) if self.refusal is not None else self.broker.appender.append(message)

    def run(self, work: Any) -> Any:
        return self.broker.loop.run_until_complete(work)

    def send(self, body: str, delay_ms: int = 1000, due_ms: int | None = None, **fields: Any) -> RemotingCommand:
        due_ms = self.broker.clock_ms() + delay_ms if due_ms is None else due_ms
        answer = self.client.send(
            body.encode(), i=f"TIMER_DELIVER_MS\x01{due_ms}\x02UNIQ_KEY\x01{body}", queue_id=3, **fields
        )
        assert answer.code == 0
        return answer

    def recall(self, handle: str, topic: str = "T") -> RemotingCommand:
        return self.client.ask(RequestCode.RECALL_MESSAGE, {"topic": topic, "recallHandle": handle})

    def deliver(self, ahead_ms: int = 0) -> float | None:
        """Lets time pass, and delivers what is due."""
        self.broker.ahead_ms += ahead_ms
        wait_s: float | None = self.run(self.delivery.deliver_due())
        return wait_s

    def keep(self, *, flush: bool = True, sync: bool = True) -> None:
        if flush:
            FlushPublisher(self.broker.control).flushed(self.broker.control.wrote_offset, 0)
        if sync:
            self.delivery._synced_at_s = -1e9
        self.run(self.delivery.keep_once(0))

    def bodies(self) -> list[str]:
        return [record.body.decode() for record in self.broker.records() if record.topic == "T"]

    def last(self) -> MessageExt:
        return self.broker.record()


@pytest.fixture
def scene(broker: SmallBroker) -> Scene:
    return Scene(broker)


def test_message_is_stored_in_the_timer_topic_and_delivered_when_due(scene: Scene) -> None:
    due_ms = scene.broker.clock_ms() + 60_000
    answer = scene.send("later", due_ms=due_ms, h=7)
    assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("3", "0")
    waiting = scene.last()
    assert (waiting.topic, waiting.queue_id, waiting.properties["TIMER_OUT_MS"]) == (TIMER_TOPIC, 0, str(due_ms))
    assert (waiting.properties["REAL_TOPIC"], waiting.properties["REAL_QID"]) == ("T", "3")
    wait_s = scene.deliver()
    assert wait_s is not None
    assert 0 < wait_s <= 1
    assert scene.bodies() == []
    scene.deliver(60_000)
    message = scene.last()
    assert (message.topic, message.queue_id, message.flag, message.body) == ("T", 3, 7, b"later")
    assert message.properties == waiting.properties | {"TIMER_PHYSICAL_OFFSET": str(waiting.physical_offset)}
    for name in ("sys_flag", "born_timestamp", "born_host", "store_host", "reconsume_times"):
        assert getattr(message, name) == getattr(waiting, name)
    assert scene.deliver(10_000_000) is None
    assert scene.bodies() == ["later"]


def test_waiting_messages_are_counted_wherever_their_entries_are(scene: Scene) -> None:
    scene.send("soon", 1_000)
    scene.deliver()  # on the wheel
    scene.send("later", 2 * SPAN_MS)
    scene.send("as soon", 1_500)
    assert scene.delivery.waiting == 3
    scene.keep()
    scene.start()
    scene.deliver()
    assert scene.delivery.waiting == 3
    scene.deliver(1_200)
    assert scene.delivery.waiting == 2
    scene.deliver(2 * SPAN_MS)
    assert (scene.delivery.waiting, scene.bodies()) == (0, ["soon", "as soon", "later"])


def test_messages_are_delivered_in_the_order_of_their_times(scene: Scene) -> None:
    now = scene.broker.clock_ms()
    for body, delay in (("c", 7000), ("a", 1500), ("d", SPAN_MS * 2), ("b", 1501)):
        scene.send(body, due_ms=now + delay)
    scene.deliver(1500)
    assert scene.bodies()[:1] == ["a"]
    scene.deliver(SPAN_MS * 3)
    assert scene.bodies() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("saved", [False, True])
def test_message_received_before_the_index_is_recovered_is_delivered(scene: Scene, saved: bool) -> None:
    scene.send("before", 5000)
    if saved:
        scene.keep()
    scene.start(meanwhile=lambda: scene.send("meanwhile", 6000))
    scene.keep()
    scene.deliver(7000)
    assert scene.bodies() == ["before", "meanwhile"]
    scene.keep()
    scene.start()
    assert scene.deliver(1000) is None
    assert scene.bodies() == ["before", "meanwhile"]


@pytest.mark.parametrize("saved", [False, True])
def test_pending_timers_survive_a_kill(scene: Scene, saved: bool) -> None:
    scene.send("soon", 5000)
    scene.send("late", SPAN_MS * 5)
    if saved:
        scene.keep()
        assert scene.delivery._written.queue_offset == 2
    scene.send("after", 6000)
    scene.start()
    scene.deliver(7000)
    assert scene.bodies() == ["soon", "after"]
    scene.start()
    scene.deliver(SPAN_MS * 6)
    assert scene.bodies() == ["soon", "after", "late"]


@pytest.mark.parametrize("kept_after", [None, 0, 3])
@pytest.mark.parametrize("dies_after", range(7))
def test_kill_during_delivery_causes_no_duplicates(scene: Scene, dies_after: int, kept_after: int | None) -> None:
    due_ms = scene.broker.clock_ms() + 1000
    for number in range(6):
        scene.send(str(number), due_ms=due_ms + (number // 2) * 100)
        if kept_after == number:
            scene.keep()
    scene.dies_after = dies_after
    if dies_after < 6:
        with pytest.raises(KeyboardInterrupt):
            scene.deliver(5000)
    else:
        scene.deliver(5000)
    assert len(scene.bodies()) == dies_after
    scene.dies_after = None
    scene.start()
    scene.deliver()
    assert scene.bodies() == list("012345")
    scene.keep()
    scene.start()
    scene.deliver(SPAN_MS)
    assert scene.bodies() == list("012345")


def test_kills_and_checkpoints_at_every_step_deliver_each_message_exactly_once(scene: Scene) -> None:
    due_ms = scene.broker.clock_ms() + 1000
    for number in range(12):
        scene.send(f"{number:02}", due_ms=due_ms + (number // 3))
    scene.broker.ahead_ms += 5000
    for _ in range(12):
        scene.dies_after = 1
        with contextlib.suppress(KeyboardInterrupt):
            scene.deliver()
        scene.dies_after = None
        scene.keep()
        scene.start()
    assert scene.bodies() == [f"{number:02}" for number in range(12)]


def test_timer_of_a_message_sent_back_is_not_delivered_again(scene: Scene) -> None:
    scene.send("a")
    scene.deliver(2000)
    ext = {"offset": scene.last().physical_offset, "group": "CG", "delayLevel": 0}
    assert scene.client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext).code == 0
    assert "TIMER_PHYSICAL_OFFSET" in scene.last().properties
    scene.start()
    scene.deliver(SPAN_MS)
    assert scene.bodies() == ["a"]


def test_checkpoint_waits_until_delivered_messages_are_durable(scene: Scene) -> None:
    scene.send("a")
    scene.deliver(2000)
    scene.keep(flush=False)
    assert scene.delivery._checkpoint_file.read() is None
    scene.keep()
    kept = scene.delivery._checkpoint_file.read()
    assert kept is not None
    assert kept.queue_offset == 1
    assert kept.physical_offset <= scene.broker.control.flushed_offset


def test_files_are_deleted_when_all_their_timers_are_delivered(scene: Scene) -> None:
    directory = scene.broker.paths.root / "timer"
    scene.send("a")
    scene.keep()
    assert len([path for path in directory.iterdir() if path.name.isdecimal()]) == 1
    scene.deliver(2 * SPAN_MS)
    for _ in range(2):
        scene.keep()
    assert [path for path in directory.iterdir() if path.name.isdecimal()] == []
    scene.start()
    scene.deliver(SPAN_MS)
    assert scene.bodies() == ["a"]


def test_overdue_message_is_delivered_once_and_at_once(scene: Scene) -> None:
    scene.send("early", 1000)
    scene.deliver(5000)
    scene.keep()
    # A record that had to wait for a file of the log: it is due before others that were delivered.
    properties = f"TIMER_OUT_MS\x01{scene.broker.clock_ms() - SPAN_MS}\x02REAL_TOPIC\x01T\x02REAL_QID\x011\x02UNIQ_KEY\x01L".encode()
    scene.broker.appender.append(MessageToStore(TIMER_TOPIC, 0, b"late", properties))
    scene.keep()
    scene.start()
    scene.deliver()
    assert scene.bodies() == ["early", "late"]
    scene.keep()
    scene.start()
    scene.deliver(SPAN_MS)
    assert scene.bodies() == ["early", "late"]


def test_lost_index_is_rebuilt_from_the_log(scene: Scene) -> None:
    scene.send("done", 1000)
    scene.send("waits", SPAN_MS)
    scene.deliver(2000)
    scene.keep()
    for path in (scene.broker.paths.root / "timer").iterdir():
        path.unlink()
    scene.start()
    scene.deliver(2 * SPAN_MS)
    assert scene.bodies() == ["done", "waits"]


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize(
    ("read", "after_ms", "come"),
    [
        (2, 3000, ["late"]),  # as it was left after a clean stop
        (1, 3000, ["soon", "late"]),  # it had not looked at the second yet
        (2, 500, ["early", "soon", "late"]),  # none was due yet
        (2, 99_000, ["early", "soon", "late"]),  # a time that is still to come is nobody's progress
    ],
)
def test_timers_delivered_by_rocketmq_5_are_not_delivered_again(
    scene: Scene, saved: bool, read: int, after_ms: int, come: list[str]
) -> None:
    now = scene.broker.clock_ms()
    scene.send("early", due_ms=now + 1000)
    scene.send("soon", due_ms=now + 2000)
    scene.send("late", due_ms=now + 20_000)
    if saved:
        scene.keep()
    scene.broker.ahead_ms += 4000
    scene.rocketmq5 = Rocketmq5Progress(now + after_ms, read)
    for _ in range(2):
        scene.start()
        scene.deliver()
    scene.deliver(30_000)
    assert scene.bodies() == come


def test_progress_of_rocketmq_5_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "timercheck"
    assert read_progress(file) is None
    file.write_bytes(b"\0" * 4096)
    assert read_progress(file) is None
    file.write_bytes(struct.pack(">qqqq", 1_700_000_000_000, 520, 7, 9).ljust(4096, b"\0"))
    assert read_progress(file) == Rocketmq5Progress(1_700_000_000_000, 7)
    file.write_bytes(b"torn")
    assert read_progress(file) is None


def test_unreadable_checkpoint_causes_only_a_rebuild(scene: Scene) -> None:
    scene.send("waits", 1000)
    scene.keep()
    (scene.broker.paths.root / "timer" / "checkpoint").write_text("nonsense")
    scene.start()
    scene.deliver(2000)
    assert scene.bodies() == ["waits"]


def test_entries_without_a_record_are_skipped(scene: Scene) -> None:
    scene.send("a", 1000)
    scene.client.send(b"ordinary")
    ordinary = scene.last()
    for physical_offset in (ordinary.physical_offset, 3, 1 << 30):
        scene.delivery._note({"TIMER_OUT_MS": str(scene.broker.clock_ms() + 500)}, physical_offset, ordinary.size_bytes)
    scene.deliver(2000)
    assert scene.bodies() == ["ordinary", "a"]


def test_failed_delivery_is_retried(scene: Scene) -> None:
    handle = scene.send("cancelled").ext["recallHandle"]
    scene.recall(handle)
    for body in "abc":
        scene.send(body)
    scene.refusal = PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert scene.deliver(2000) == 0.1
    scene.refusal = None
    scene.deliver()
    assert scene.bodies() == ["a", "b", "c"]


def test_waiting_messages_are_counted_by_topic_without_cancellations(scene: Scene) -> None:
    scene.recall(scene.send("one").ext["recallHandle"])
    scene.send("two")
    assert scene.broker.stats.totals("TIMER_ENQUEUE_NUMS") == {"T": 2}


def test_cancelled_message_is_not_delivered(scene: Scene) -> None:
    due_ms = scene.broker.clock_ms() + 5000
    handles = [scene.send(body, due_ms=due_ms).ext["recallHandle"] for body in "abc"]
    answer = scene.recall(handles[1])
    assert (answer.code, answer.ext["msgId"]) == (0, "b")
    scene.start()
    scene.deliver(6000)
    assert scene.bodies() == ["a", "c"]
    assert scene.delivery.cancelled == 1
    assert scene.recall(handles[2]).code == 604


def test_cancel_message_of_rocketmq_5_is_supported(scene: Scene) -> None:
    due_ms = scene.broker.clock_ms() + 5000
    scene.send("a", due_ms=due_ms)
    scene.client.send(i=f"TIMER_DELIVER_MS\x01{due_ms}\x02TIMER_DEL_UNIQKEY\x01T+a\x02UNIQ_KEY\x01x")
    scene.send("b", due_ms=due_ms)
    scene.client.send(i=f"TIMER_DELIVER_MS\x01{due_ms}\x02TIMER_DEL_UNIQKEY\x01b\x02UNIQ_KEY\x01y")
    scene.send("c", due_ms=due_ms)
    scene.deliver(6000)
    assert scene.bodies() == ["c"]


@pytest.mark.parametrize(
    ("topic", "handle", "code"),
    [
        ("T", "nonsense", 604),
        ("Unknown", "djEgVCBiIDEgVQ==", 17),
        ("T", "djEgVCBiIDE4MDAwMDAwMDAwMDEgVQ==", 604),  # another broker's
        ("T2", None, 604),
        ("", None, 1),
    ],
)
def test_invalid_recall_is_refused(scene: Scene, topic: str, handle: str | None, code: int) -> None:
    scene.broker.topic("T2")
    known = scene.send("a").ext["recallHandle"]
    answer = scene.recall(known if handle is None else handle, topic)
    assert answer.code == code
    assert answer.remark


def test_slave_refuses_recalls(make_broker: Callable[..., SmallBroker]) -> None:
    slave = make_broker(store={"broker_role": "SLAVE"})
    answer = slave.connect().ask(RequestCode.RECALL_MESSAGE, {"topic": "T", "recallHandle": "x"})
    assert answer.code == 11


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("TIMER_DELAY_SEC\x015", 5000),
        ("TIMER_DELAY_MS\x015", 5),
        ("TIMER_DELAY_SEC\x012\x02TIMER_DELAY_MS\x015\x02TIMER_DELIVER_MS\x011", 2000),
        ("TIMER_DELAY_MS\x01259200000", 259_200_000),
        ("TIMER_DELAY_MS\x01259200001", 13),
        ("TIMER_DELIVER_MS\x01soon", 13),
        ("TIMER_DELIVER_MS\x0117", "now"),
        ("TIMER_DELAY_MS\x01-5", "now"),
        ("TIMER_DELIVER_MS\x0117\x02TIMER_DEL_UNIQKEY\x01T+x", 13),
        ("TIMER_DELAY_MS\x019000\x02TIMER_OUT_MS\x0117", "now"),
        ("TIMER_DELAY_MS\x019000\x02DELAY\x013", "SCHEDULE_TOPIC_XXXX"),
    ],
)
def test_timer_properties_set_the_delivery_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, text: str, outcome: int | str
) -> None:
    now = 1_900_000_000_000
    monkeypatch.setattr(scene.broker.timers, "_clock_ms", lambda: now)
    answer = scene.client.send(i=text)
    if outcome == 13:
        assert answer.code == 13
        return
    record = scene.last()
    if isinstance(outcome, int):
        assert (record.topic, record.properties["TIMER_OUT_MS"]) == (TIMER_TOPIC, str(now + outcome))
    elif outcome == "now":
        assert record.topic == "T"
    else:
        assert record.topic == outcome
        assert "TIMER_DELAY_MS" not in record.properties


def test_timers_can_be_disabled(make_broker: Callable[..., SmallBroker]) -> None:
    broker = make_broker(broker={"timer_wheel_enable": False})
    broker.topic()
    client = broker.connect()
    assert client.send(i="TIMER_DELAY_MS\x015000").code == 1
    assert client.send(i="TAGS\x01a").code == 0


def test_client_cannot_mark_a_message_as_delivered(scene: Scene) -> None:
    scene.client.send(i="TIMER_PHYSICAL_OFFSET\x010\x02TAGS\x01a")
    assert "TIMER_PHYSICAL_OFFSET" not in scene.last().properties
    assert scene.client.send(topic=TIMER_TOPIC, i="TAGS\x01a").code == 16


def test_committed_message_can_have_a_timer(scene: Scene) -> None:
    scene.client.send(b"paid", f=4, i="TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01U\x02TIMER_DELAY_MS\x015000")
    half = scene.last()
    ext = {
        "producerGroup": "PG", "tranStateTableOffset": 0, "commitLogOffset": half.physical_offset, "commitOrRollback": 8, "msgId": "U",
    }  # fmt: skip
    assert scene.client.ask(RequestCode.END_TRANSACTION, ext).code == 0
    scene.deliver()
    assert scene.bodies() == []
    scene.deliver(6000)
    assert scene.bodies() == ["paid"]


def test_delivery_sleeps_until_a_timer_is_due(scene: Scene) -> None:
    scene.broker.stands_at_ms = None

    async def scenario() -> None:
        running = asyncio.create_task(scene.delivery.run())
        while not scene.delivery._sleeps_until_ms:  # noqa: ASYNC110  (it tells nobody)
            await asyncio.sleep(0)
        begin = scene.broker.clock_ms()
        message = f"TIMER_OUT_MS\x01{begin + 30}\x02REAL_TOPIC\x01T\x02REAL_QID\x010".encode()
        scene.broker.appender.append(MessageToStore(TIMER_TOPIC, 0, b"soon", message))
        await until(scene.bodies)
        assert scene.broker.clock_ms() - begin >= 30
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    scene.run(scenario())
    scene.delivery.stop()
    assert scene.bodies() == ["soon"]
