"""The push consumer, with a broker that does what the test wants."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from headrace import (
    ConsumeContext,
    ConsumeHook,
    ConsumeResult,
    HandlingContext,
    MessageExt,
    MessageQueue,
    PushConsumer,
    ReceivedMessage,
    Reject,
    Retry,
    StartFrom,
)
from headrace.client.consuming import queue_pull
from headrace.client.consuming.push import consume_concurrent
from headrace.model.properties import encode_properties
from headrace.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    ResetOffsetBody,
)
from headrace.protocol.record import encode_record
from headrace.protocol.request_code import RequestCode
from support.consuming import Gathered, eventually
from support.consuming_broker import ConsumingBroker, consuming_cluster
from support.sdk import run
from support.sdk_cluster import Answer, Cluster

KEY = ("g", "T", 0)


def consumer_of(cluster: Cluster, handler: Any, *, batch: bool = False, **options: Any) -> PushConsumer:
    consumer = PushConsumer("g", cluster.name_server, **{"start_from": StartFrom.FIRST, **options})
    consumer.subscribe("T", "*", handler, batch=batch)
    return consumer


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [str(number).encode() for number in range(first, first + count)]


async def stored(consumer: PushConsumer, broker: ConsumingBroker, offset: int) -> None:
    """Waits until the broker has this offset of queue 0."""

    async def tell() -> None:
        while broker.offsets.get(KEY) != offset:
            await consumer.persist_offsets()
            await asyncio.sleep(0.01)

    async with asyncio.timeout(60):
        await tell()


def test_committed_offset_waits_for_the_slowest_message() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", *bodies(20))
            gate, gathered = threading.Event(), Gathered()

            def handler(message: ReceivedMessage) -> None:
                if message.body == b"3":
                    assert gate.wait(60)
                gathered(message)

            async with consumer_of(cluster, handler) as consumer:
                await eventually(lambda: len(gathered.messages) == 19, "all but one")
                await stored(consumer, broker, 3)
                gate.set()
                await stored(consumer, broker, 20)

    run(main())


def test_message_that_cannot_be_sent_back_is_sent_anew_or_retried_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_concurrent, "RETRY_S", 0.01)

    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, broker):
            broker.store("T", b"0", TAGS="t")
            broker.errors[RequestCode.CONSUMER_SEND_MSG_BACK] = [1, 1]
            broker.answers += [Answer(13)]  # the first new message is rejected for good, the second accepted
            seen: list[int] = []

            def handler(message: ReceivedMessage) -> None:
                seen.append(message.reconsume_times)
                raise Retry

            async with consumer_of(cluster, handler) as consumer:
                await stored(consumer, broker, 1)
            assert seen == [0, 1]
            assert len(broker.sends) == 2
            sent = broker.sends[1].ext
            assert sent["b"] == "%RETRY%g"
            assert sent["a"] == "CLIENT_INNER_PRODUCER"
            assert (sent["j"], sent["l"]) == ("2", "16")
            for piece in (
                "RETRY_TOPIC\x01T",
                "TAGS\x01t",
                "DELAY\x014",
                "RECONSUME_TIME\x012",
                "MAX_RECONSUME_TIMES\x0116",
            ):
                assert piece in sent["i"]
            assert "MIN_OFFSET" not in sent["i"]

    run(main())


def test_offset_outside_the_queue_is_corrected_and_the_queue_restarted() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.first["T", 0] = 100
            broker.store("T", *bodies(5))
            broker.offsets[KEY] = 7
            gathered = Gathered()
            async with consumer_of(cluster, gathered) as consumer:
                await gathered.receive(bodies(5))
                await stored(consumer, broker, 105)
            assert [message.queue_offset for message in gathered.messages] == [100, 101, 102, 103, 104]

    run(main())


def test_lost_queue_is_dropped_and_its_running_handlers_are_ignored() -> None:
    async def main() -> None:
        async with consuming_cluster(queues=2) as (cluster, broker):
            broker.store("T", *bodies(4))
            gate, began = threading.Event(), []

            def handler(message: ReceivedMessage) -> None:
                began.append(message.queue_id)
                assert gate.wait(60)
                raise Retry

            async with consumer_of(cluster, handler) as consumer:
                await eventually(lambda: len(began) == 4, "all at work")
                broker.other_members = [consumer.client_id + "0"]  # sorts after ours: the second queue is its
                broker.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"})
                await eventually(lambda: [q.queue_id for q in consumer.assignment()] == [0], "one is lost")
                gate.set()
                await eventually(
                    lambda: len(broker.requests(RequestCode.CONSUMER_SEND_MSG_BACK)) == 2, "two are sent back"
                )
            offsets = {int(command.ext["offset"]) for command in broker.requests(RequestCode.CONSUMER_SEND_MSG_BACK)}
            assert offsets == {0}
            assert ("g", "T", 1) not in broker.offsets or broker.offsets["g", "T", 1] == 0

    run(main())


def test_reset_moves_the_offset_and_redelivers_messages() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", *bodies(10))
            gathered = Gathered()
            async with consumer_of(cluster, gathered) as consumer:
                await gathered.receive(bodies(10))
                await stored(consumer, broker, 10)
                table = ResetOffsetBody({MessageQueue("T", "broker-a", 0): 6}).encode()
                broker.push(
                    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                    {"topic": "T", "group": "g", "timestamp": "0", "isForce": "false"},
                    table,
                )
                await eventually(lambda: len(gathered.messages) == 14, "four again")
                assert gathered.bodies[10:] == bodies(4, 6)
                await stored(consumer, broker, 10)

    run(main())


def test_stacks_have_handlers_that_wait() -> None:
    """A coroutine that waits is on no thread's stack."""

    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            begun, done = asyncio.Event(), asyncio.Event()

            async def bill_the_customer(_message: MessageExt) -> None:
                begun.set()
                await done.wait()

            broker.store("T", *bodies(1))
            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST)
            consumer.subscribe("T", "*", bill_the_customer)
            async with consumer:
                ext = {"consumerGroup": "g", "clientId": consumer.client_id, "jstackEnable": "true"}
                async with asyncio.timeout(30):
                    await begun.wait()
                answer = await broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
                text = ConsumerRunningInfo.decode(answer.body).jstack or ""
                done.set()
            (shown,) = [part for part in text.split("\n\n") if "bill_the_customer" in part]
            assert shown.index("in bill_the_customer") < shown.index("await done.wait()")
            assert "in wait\n" in shown  # asyncio's, inside

    run(main())


def test_requests_of_brokers_are_answered() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", *bodies(3))
            gathered = Gathered()
            async with consumer_of(cluster, gathered, orderly=True) as consumer:
                await gathered.receive(bodies(3))
                ext = {"consumerGroup": "g", "clientId": consumer.client_id, "jstackEnable": "true"}
                answer = await broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
                info = ConsumerRunningInfo.decode(answer.body)
                assert info.properties["PROP_CONSUMEORDERLY"] == "true"
                assert info.properties["PROP_CONSUMER_START_TIMESTAMP"].isdecimal()
                assert [one.topic for one in info.subscription_set] == ["T", "%RETRY%g"]
                (held,) = info.mq_table.values()
                assert (held.commit_offset, held.locked, held.cached_msg_count, held.droped) == (3, True, 0, False)
                assert info.status_table["T"].consume_ok_tps > 0
                assert "MainThread" in (info.jstack or "")
                status = await broker.ask(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "g"})
                assert GetConsumerStatusBody.decode(status.body).message_queue_table == {
                    MessageQueue("T", "broker-a", 0): 3
                }

    run(main())


@pytest.mark.parametrize(
    ("outcome", "result", "remark"),
    [
        (None, "CR_SUCCESS", None),
        (ConsumeResult.RETRY, "CR_LATER", None),
        (ValueError("no"), "CR_THROW_EXCEPTION", "ValueError: no"),
        (Reject("bad"), "CR_THROW_EXCEPTION", "Reject: bad"),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_message_is_consumed_directly(outcome: Any, result: str, remark: str | None, kind: str, caplog: Any) -> None:
    caplog.set_level(logging.CRITICAL, "headrace")

    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            seen: list[tuple[bytes, str | None, MessageQueue]] = []

            def plain(message: ReceivedMessage) -> Any:
                seen.append((message.body, message.tags, message.queue))
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

            async def coroutine(message: ReceivedMessage) -> Any:
                return plain(message)

            handler = plain if kind == "plain" else coroutine
            async with consumer_of(cluster, handler) as consumer:
                await eventually(lambda: broker.heartbeats, "the broker knows it")
                ext = {"consumerGroup": "g", "clientId": consumer.client_id, "brokerName": "broker-a"}
                record = encode_record(
                    topic="T", body=b"direct", properties=encode_properties({"TAGS": "x"}), queue_id=3
                )
                answer = await broker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, record)
            said = ConsumeMessageDirectlyResult.decode(answer.body)
            assert (said.consume_result, said.remark, said.order) == (result, remark, False)
            assert seen == [(b"direct", "x", MessageQueue("T", "broker-a", 3))]

    run(main())


def test_batch_handler_may_set_ack_index() -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, broker):
            broker.store("T", *bodies(8))

            def handler(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
                assert context.queue == MessageQueue("T", "broker-a", 0)
                context.ack_index = 4
                context.delay_level = 7
                return ConsumeResult.SUCCESS

            async with consumer_of(cluster, handler, batch=True, batch_size=8) as consumer:
                await stored(consumer, broker, 8)
            back = broker.requests(RequestCode.CONSUMER_SEND_MSG_BACK)
            assert [command.ext["delayLevel"] for command in back] == ["7", "7", "7"]

    run(main())


def test_hooks_are_called_around_each_handler_call(caplog: Any) -> None:
    caplog.set_level(logging.CRITICAL, "headrace")

    class Watching(ConsumeHook):
        def __init__(self) -> None:
            self.seen: list[tuple[str, int, str, bool]] = []

        def before(self, context: HandlingContext) -> None:
            context.state["begun"] = True

        def after(self, context: HandlingContext) -> None:
            self.seen.append((context.group, len(context.messages), context.code.name, context.state["begun"]))
            raise RuntimeError("a hook does no harm")

    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, broker):
            hook = Watching()
            broker.store("T", b"ok", b"wrong", b"later")

            async def handler(message: ReceivedMessage) -> ConsumeResult | None:
                if message.body == b"wrong":
                    raise ValueError
                return ConsumeResult.RETRY if message.body == b"later" else None

            async with consumer_of(cluster, handler, hooks=[hook]) as consumer:
                await stored(consumer, broker, 3)
            assert sorted(hook.seen) == [("g", 1, code, True) for code in ("EXCEPTION", "FAILED", "SUCCESS")]

    run(main())


def test_handler_that_returns_an_unknown_value_is_logged_once(caplog: Any) -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", *bodies(5))

            def nonsense_handler(_message: ReceivedMessage) -> str:
                return "done"

            async with consumer_of(cluster, nonsense_handler) as consumer:
                await stored(consumer, broker, 5)

    with caplog.at_level(logging.WARNING, "headrace"):
        run(main())
    said = [record.getMessage() for record in caplog.records if "an unknown value" in record.getMessage()]
    assert len(said) == 1
    assert "nonsense_handler" in said[0]


def test_thresholds_of_a_topic_are_divided_among_its_queues() -> None:
    async def main() -> None:
        async with consuming_cluster(queues=4) as (cluster, _broker):
            consumer = consumer_of(cluster, lambda _: None, topic_threshold=1000, topic_threshold_mib=2)
            async with consumer:
                await eventually(lambda: len(consumer.assignment()) == 4, "all queues")
                assert (consumer._limits.count, consumer._limits.size_mib) == (250, 1)

    run(main())


def test_pull_under_flow_control_is_retried_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", b"0")
            # If flow control were a failure like any other, it would take three times this.
            monkeypatch.setattr(queue_pull, "ERROR_DELAY_S", 3600)
            broker.errors[RequestCode.PULL_MESSAGE] = [215, 215, 215]
            gathered = Gathered()
            async with consumer_of(cluster, gathered):
                await gathered.receive([b"0"])
            assert len(broker.requests(RequestCode.PULL_MESSAGE)) >= 4

    run(main())


def test_queue_with_an_unknown_offset_is_not_started() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", *bodies(4))
            broker.offsets[KEY] = 2
            broker.errors[RequestCode.QUERY_CONSUMER_OFFSET] = [1, 2]
            gathered = Gathered()
            async with consumer_of(cluster, gathered, start_from=StartFrom.LAST):
                await gathered.receive(bodies(2, 2))
            assert gathered.bodies == bodies(2, 2)

    run(main())


def test_consumer_closes_although_its_broker_is_gone() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", *bodies(4))
            gathered = Gathered()
            consumer = await consumer_of(cluster, gathered, orderly=True).start()
            await gathered.receive(bodies(4))
            await broker.stop()
            async with asyncio.timeout(60):
                await consumer.close()
            assert not consumer.is_running
            await consumer.close()

    run(main())


def test_requesting_the_next_message_completes_the_previous_one() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", *bodies(6))
            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST)
            consumer.subscribe("T")
            seen: list[bytes] = []
            async with consumer:
                async for message in consumer:
                    seen.append(message.body)
                    if len(seen) == 4:
                        break
            assert seen == bodies(4)
            assert broker.offsets[KEY] == 3

    run(main())


@pytest.mark.parametrize("orderly", [False, True])
def test_handler_whose_own_task_was_cancelled_has_failed_and_others_continue(orderly: bool) -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            gathered, tries = Gathered(), 0

            async def handler(message: ReceivedMessage) -> None:
                nonlocal tries
                if message.body == b"0":
                    tries += 1
                    if not orderly or tries == 1:
                        cut_off = asyncio.ensure_future(asyncio.sleep(60))
                        cut_off.cancel()
                        await cut_off
                gathered(message)

            consumer = consumer_of(cluster, handler, orderly=orderly, workers=1, suspend_time=0.05)
            async with consumer:
                broker.store("T", *bodies(5))
                await eventually(lambda: len(gathered.messages) == (5 if orderly else 4), "the others")
                await stored(consumer, broker, 5)
            sent_back = broker.requests(RequestCode.CONSUMER_SEND_MSG_BACK)
            assert len(sent_back) == (0 if orderly else 1)

    run(main())
