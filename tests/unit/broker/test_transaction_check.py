"""Rounds of the check over a real store (store spec 11): who is asked, what is stored, where the next round begins."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from broker.clients.clients import Client
from broker.transactions.check import TransactionCheck
from broker.transactions.check_requests import CheckRequests
from broker.transactions.verdict import Rules
from headrace.model.host import parse_host
from headrace.model.message import MessageExt
from headrace.model.names import TRANSACTION_CHECK_MAX_TIME_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_HALF_TOPIC
from headrace.protocol.record import decode_record
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from ipc.publish.flush import FlushPublisher
from store.commit_log.message import MessageToStore
from support.damage import damage
from support.small_broker import Peer, SmallBroker

GROUP = "CID_RMQ_SYS_TRANS"
PREPARED = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01U{}"


class Scene:
    """A small broker, its check, a producer, and a clock that is some time ahead of the store's."""

    def __init__(self, broker: SmallBroker) -> None:
        self.broker = broker
        self.ahead_ms = 10_000
        self.asked: list[MessageExt] = []
        self.check = TransactionCheck(
            broker.offsets,
            lambda topic, queue_id, offset, most: broker.getter.get(topic, queue_id, offset, most, None),
            lambda topic, queue_id: broker.queues.bounds(topic, queue_id)[0],
            broker.appender.append,
            self.asked.append,
            lambda: Rules(6000, 2, 72 * 3_600_000),
            lambda: 1,
            lambda: broker.topics.create_on_send_back(TRANSACTION_CHECK_MAX_TIME_TOPIC, 1),
            broker.control,
            clock_ms=lambda: broker.appender.log.store_timestamp + self.ahead_ms,
        )
        broker.topic()
        self.client: Peer = broker.connect()

    def prepare(self, number: int = 0, more: str = "") -> MessageExt:
        born = str(time.time_ns() // 1_000_000)
        answer = self.client.send(b"half %d" % number, queue_id=3, f=0x4, g=born, h=5, i=PREPARED.format(number) + more)
        assert (answer.code, answer.ext["queueId"]) == (0, "3")
        return self.broker.record()

    def end(self, half: MessageExt, outcome: int, **more: Any) -> int:
        ext = {
            "producerGroup": "PG", "tranStateTableOffset": half.queue_offset, "commitLogOffset": half.physical_offset,
            "commitOrRollback": outcome, "msgId": "U",
        }  # fmt: skip
        return self.client.ask(RequestCode.END_TRANSACTION, ext | more).code

    def round(self, *, flush: bool = True) -> None:
        self.broker.dispatch()
        if flush:
            # Enough for what the round will store, too.
            FlushPublisher(self.broker.control).flushed(1 << 40, 0)
        self.broker.loop.run_until_complete(self.check.round())
        self.broker.dispatch()

    def records(self, topic: str) -> list[MessageExt]:
        return [record for record in self.broker.records() if record.topic == topic]

    def progress(self) -> tuple[int, int]:
        offsets = self.broker.offsets
        return offsets.query(GROUP, TRANSACTION_HALF_TOPIC, 0), offsets.query(GROUP, TRANSACTION_OP_HALF_TOPIC, 0)


@pytest.fixture
def scene(broker: SmallBroker) -> Scene:
    return Scene(broker)


def test_prepared_message_is_stored_in_the_half_topic(scene: Scene) -> None:
    half = scene.prepare(more="\x02WAIT\x01true\x02DELAY\x013")
    assert (half.topic, half.queue_id, half.queue_offset, half.sys_flag, half.flag) == (
        TRANSACTION_HALF_TOPIC,
        0,
        0,
        0,
        5,
    )
    assert half.properties == {
        "TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "U0", "WAIT": "true", "DELAY": "3", "CLUSTER": "DefaultCluster",
        "REAL_TOPIC": "T", "REAL_QID": "3",
    }  # fmt: skip


def test_committed_message_is_stored_with_the_half_messages_properties(scene: Scene) -> None:
    half = scene.prepare()
    assert scene.end(half, 8) == ResponseCode.SUCCESS
    message, op = scene.broker.records()[-2:]
    assert (message.topic, message.queue_id, message.queue_offset) == ("T", 3, 0)
    assert (message.sys_flag, message.prepared_transaction_offset) == (8, half.physical_offset)
    assert message.properties_raw == half.properties_raw
    assert (message.body, message.flag, message.born_timestamp, message.born_host) == (
        half.body, half.flag, half.born_timestamp, half.born_host,
    )  # fmt: skip
    assert (op.topic, op.queue_id, op.body, op.properties) == (
        TRANSACTION_OP_HALF_TOPIC, 0, b"0", {"TAGS": "d", "WAIT": "true"},
    )  # fmt: skip
    assert op.born_host == op.store_host == parse_host(scene.broker.config.address)


def test_rollback_stores_only_an_op_message(scene: Scene) -> None:
    half = scene.prepare()
    assert scene.end(half, 12) == ResponseCode.SUCCESS
    assert [record.topic for record in scene.broker.records()] == [TRANSACTION_HALF_TOPIC, TRANSACTION_OP_HALF_TOPIC]


def test_ends_of_transactions_are_counted_by_topic(scene: Scene) -> None:
    for outcome in (8, 8, 12):
        scene.end(scene.prepare(), outcome)
    stats = scene.broker.stats
    assert stats.totals("TRANSACTION_COMMIT_NUMS") == {"T": 2}
    assert stats.totals("TRANSACTION_ROLLBACK_NUMS") == {"T": 1}
    assert scene.end(scene.broker.records()[-1], 8) != ResponseCode.SUCCESS  # not a half message of the group
    assert stats.totals("TRANSACTION_COMMIT_NUMS") == {"T": 2}


def test_delay_begins_at_the_commit(scene: Scene) -> None:
    half = scene.prepare(more="\x02DELAY\x012")
    scene.end(half, 8)
    message = scene.broker.records()[-2]
    assert (message.topic, message.queue_id, message.sys_flag) == ("SCHEDULE_TOPIC_XXXX", 1, 8)
    assert message.properties["REAL_TOPIC"] == "T"


def test_unknown_outcome_is_not_answered(scene: Scene) -> None:
    half = scene.prepare()
    ext = {"producerGroup": "PG", "tranStateTableOffset": 0, "commitLogOffset": 0, "commitOrRollback": 0, "msgId": "U"}
    scene.client.tell(RequestCode.END_TRANSACTION, ext)
    assert scene.client.received() == []
    assert scene.broker.records() == [half]


def test_end_of_transaction_for_another_group_or_message_is_refused(scene: Scene) -> None:
    half = scene.prepare()
    for wrong in (
        {"producerGroup": "X"},
        {"tranStateTableOffset": 1},
        {"commitLogOffset": 4},
        {"commitLogOffset": 1 << 40},
    ):
        assert scene.end(half, 8, **wrong) == ResponseCode.SYSTEM_ERROR
    scene.client.send(i="PGROUP\x01PG")
    ordinary = scene.broker.record()
    assert scene.end(ordinary, 8) == ResponseCode.SYSTEM_ERROR
    assert len(scene.broker.records()) == 2


def test_slave_refuses_to_end_transactions(make_broker: Callable[..., SmallBroker]) -> None:
    slave = make_broker(store={"broker_role": "SLAVE"})
    ext = {"producerGroup": "PG", "tranStateTableOffset": 0, "commitLogOffset": 0, "commitOrRollback": 8, "msgId": "U"}
    assert slave.connect().ask(RequestCode.END_TRANSACTION, ext).code == ResponseCode.SLAVE_NOT_AVAILABLE


def test_retried_message_of_an_old_consumer_is_not_prepared(scene: Scene) -> None:
    scene.client.send(topic="%RETRY%G", queue_id=0, j=1, i=PREPARED.format(1) + "\x02DELAY\x013")
    assert scene.broker.record().topic == "SCHEDULE_TOPIC_XXXX"


def test_check_request_refers_to_a_new_copy(scene: Scene) -> None:
    half = scene.prepare(more="\x02WAIT\x01true")
    scene.round()
    [asked] = scene.asked
    again = scene.broker.record()
    assert (again.topic, again.queue_offset, again.flag) == (TRANSACTION_HALF_TOPIC, 1, 0)
    assert again.properties == half.properties | {"TRANSACTION_CHECK_TIMES": "1"}
    assert (asked.queue_offset, asked.physical_offset) == (1, again.physical_offset)
    assert asked.properties == again.properties
    assert scene.progress() == (1, -1)


def test_resolved_messages_are_skipped(scene: Scene) -> None:
    halves = [scene.prepare(number) for number in range(5)]
    for number in (0, 1, 3):
        scene.end(halves[number], 8 if number else 12)
    scene.round()
    assert [asked.body for asked in scene.asked] == [b"half 2", b"half 4"]
    assert scene.progress() == (5, 3)
    assert len(scene.records("T")) == 2


def test_op_offset_advances_only_past_processed_messages(scene: Scene) -> None:
    first, second = scene.prepare(1), scene.prepare(2)
    scene.end(second, 12)
    scene.ahead_ms = 3000  # the first is too fresh to be asked about
    scene.round()
    assert scene.asked == []
    assert scene.progress() == (-1, -1)
    scene.end(first, 12)
    scene.ahead_ms = 20_000
    scene.round()
    assert scene.asked == []
    assert scene.progress() == (2, 2)


def test_message_is_checked_once_per_round_up_to_the_maximum(scene: Scene) -> None:
    scene.prepare()
    for _ in range(4):
        scene.round()
        scene.ahead_ms += 1000
    assert [asked.properties["TRANSACTION_CHECK_TIMES"] for asked in scene.asked] == ["1", "2"]
    [given_up] = scene.records(TRANSACTION_CHECK_MAX_TIME_TOPIC)
    assert given_up.properties["TRANSACTION_CHECK_TIMES"] == "2"
    assert given_up.properties["REAL_TOPIC"] == "T"
    assert scene.broker.topics.find(TRANSACTION_CHECK_MAX_TIME_TOPIC) is not None


def test_message_within_its_immunity_time_is_stored_again_with_its_first_offset(scene: Scene) -> None:
    half = scene.prepare(more="\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x0115")
    scene.end(half, 8)
    half = scene.prepare(2, more="\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x0115")
    scene.round()
    again = scene.broker.record()
    assert again.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "1"
    assert (again.properties["TRANSACTION_CHECK_TIMES"], again.properties["WAIT"]) == ("1", "false")
    assert scene.asked == []
    assert scene.progress() == (2, 1)


def test_progress_is_not_stored_before_the_new_copies_are_durable(scene: Scene) -> None:
    scene.prepare()
    scene.round(flush=False)
    assert len(scene.asked) == 1
    assert scene.progress() == (-1, -1)
    scene.ahead_ms += 1000
    scene.round(flush=False)
    assert len(scene.asked) == 2  # the copy, not the first one again
    scene.check.save(all_of_it=True)
    assert scene.progress() == (2, -1)


def test_several_offsets_in_one_op_message_are_all_resolved(scene: Scene) -> None:
    for number in range(3):
        scene.prepare(number)
    scene.broker.appender.append(MessageToStore(TRANSACTION_OP_HALF_TOPIC, 0, b"0,2,", b"TAGS\x01d", born_timestamp=1))
    scene.round()
    assert [asked.body for asked in scene.asked] == [b"half 1"]
    assert scene.progress() == (3, 1)


def test_discarded_message_is_checked_again_on_an_operators_request(scene: Scene) -> None:
    scene.prepare()
    for _ in range(3):
        scene.round()
        scene.ahead_ms += 1000
    [given_up] = scene.records(TRANSACTION_CHECK_MAX_TIME_TOPIC)
    answer = scene.client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": given_up.offset_message_id})
    assert answer.code == ResponseCode.SUCCESS
    assert scene.broker.record().properties["TRANSACTION_CHECK_TIMES"] == "0"
    scene.ahead_ms += 10_000
    scene.round()
    assert scene.asked[-1].properties["TRANSACTION_CHECK_TIMES"] == "1"
    for wrong in ("", "77", "zz" * 16):
        assert (
            scene.client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": wrong}).code == ResponseCode.SYSTEM_ERROR
        )


def test_check_requests_rotate_over_producers_and_contain_the_original_message(scene: Scene) -> None:
    peers = [scene.broker.connect(port) for port in (1, 2, 3)]
    clients = [Client(peer.connection, str(number), None, 409, 0) for number, peer in enumerate(peers)]
    asking = CheckRequests(lambda group: clients if group == "PG" else [])
    half = scene.prepare()

    async def ask() -> None:
        assert all(asking.ask(half) for _ in range(6))
        peers[1].close()
        assert all(asking.ask(half) for _ in range(3))

    scene.broker.loop.run_until_complete(ask())
    got = [peer.received() for peer in peers]
    assert [len(commands) for commands in got] in ([4, 2, 3], [3, 2, 4])
    command = got[0][0]
    assert (command.code, command.is_oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
    assert command.ext == {
        "tranStateTableOffset": str(half.queue_offset), "commitLogOffset": str(half.physical_offset), "msgId": "U0",
        "transactionId": "U0", "offsetMsgId": half.offset_message_id,
    }  # fmt: skip
    shown = decode_record(command.body)
    assert (shown.topic, shown.queue_id, shown.body, shown.properties) == ("T", 3, half.body, half.properties)
    clients.clear()
    assert not asking.ask(half)


def test_check_continues_after_a_failure(scene: Scene) -> None:
    calls: list[int] = []

    async def scenario() -> None:
        thrice = asyncio.Event()

        async def fail() -> None:
            calls.append(1)
            if len(calls) == 3:
                thrice.set()
            raise OSError("no disk")

        scene.check.round = fail  # type: ignore[method-assign]
        running = asyncio.create_task(scene.check.run(lambda: 1))
        await thrice.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    scene.broker.loop.run_until_complete(scenario())
    assert len(calls) >= 3


def lose(scene: Scene, record: MessageExt) -> None:
    damage(scene.broker.paths.commit_log, scene.broker.file_size, record.physical_offset, 60)


def test_damaged_half_message_does_not_prevent_checks_of_others(scene: Scene) -> None:
    halves = [scene.prepare(number) for number in range(6)]
    scene.end(halves[3], 12)
    scene.broker.dispatch()
    lose(scene, halves[1])
    lose(scene, halves[2])
    scene.round()
    assert [asked.body for asked in scene.asked] == [b"half 0", b"half 4", b"half 5"]


def test_damaged_op_message_does_not_block_later_ones(scene: Scene) -> None:
    halves = [scene.prepare(number) for number in range(3)]
    for half in halves:
        scene.end(half, 12)
    ops = scene.records(TRANSACTION_OP_HALF_TOPIC)
    scene.broker.dispatch()
    lose(scene, ops[0])
    scene.round()
    assert [asked.body for asked in scene.asked] == [b"half 0"]
    assert scene.progress() == (3, 3)
