"""Batches, automatic batching, hooks, and the records of message trace."""

import asyncio
import contextvars
import logging
import threading

import pytest

from headrace import (
    BrokerError,
    EndTransactionContext,
    EndTransactionHook,
    Message,
    MessageInvalid,
    Producer,
    SendContext,
    SendHook,
    StateError,
    TransactionProducer,
    TransactionState,
    split_batches,
)
from headrace.client.producing.transaction_producer import THREADS, state_of
from headrace.client.sending.batches import _max_entry_size
from headrace.client.sending.send_hooks import MessageKind
from headrace.client.tracing.trace_records import (
    TraceConsumeCode,
    consume_after_record,
    consume_before_record,
    end_transaction_record,
    publish_record,
)
from headrace.protocol.batch import decode_batch, encode_batch
from headrace.protocol.record import encode_record
from headrace.protocol.request_code import RequestCode
from support.golden import frames
from support.loops import until
from support.sdk import run
from support.sdk_cluster import Answer, Cluster


def test_split_batches_keeps_the_order_and_the_size_limit() -> None:
    messages = [Message("T", bytes(number % 50)) for number in range(1, 200)]
    batches = list(split_batches(messages, 2000))
    assert [message for batch in batches for message in batch] == messages
    assert all(sum(map(_max_entry_size, batch)) <= 2000 for batch in batches)
    assert all(len(encode_batch(batch)) <= 2000 for batch in batches)
    assert len(list(split_batches(messages, max_count=10))) == 20


def test_split_batches_separates_messages_that_cannot_share_a_batch() -> None:
    other, delayed, hasty = Message("U", b"x"), Message("T", b"x", delay_level=1), Message("T", b"x", wait_store=False)
    messages = [Message("T", b"x"), other, Message("T", b"x"), delayed, Message("T", b"x"), hasty]
    assert [len(batch) for batch in split_batches(messages)] == [1] * 6
    assert list(split_batches([])) == []
    big = Message("T", bytes(5000))
    assert list(split_batches([big, big], 100)) == [[big], [big]], "one that is larger than a batch goes alone"


def test_messages_of_a_batch_fail_with_its_error() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server, linger=0.01) as producer:
            cluster.brokers["a"].answers = [Answer(13, "too large")]
            results = await asyncio.gather(
                *(producer.send(Message("T", b"x")) for _ in range(5)), return_exceptions=True
            )
            assert all(isinstance(result, BrokerError) for result in results)
            assert len(cluster.brokers["a"].sends) == 1
            assert (await producer.send(Message("T", b"x"))).ok

    run(main())


def test_full_batch_is_sent_at_once() -> None:
    async def main() -> None:
        async with (
            Cluster("a") as cluster,
            Producer("g", cluster.name_server, linger=600, batch_size=10_000) as producer,
        ):
            sends = [asyncio.create_task(producer.send(Message("T", bytes(2000)))) for _ in range(15)]
            await until(lambda: sum(task.done() for task in sends) == 12)
            await producer.flush()
            assert len({task.result().message_id for task in sends}) == 15
            sizes = [len(decode_batch(command.body)) for command in cluster.brokers["a"].sends]
            assert sizes == [4, 4, 4, 3]

    run(main())


def test_delayed_keyed_and_transactional_messages_are_not_batched() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server, linger=600) as producer:
            await producer.send(Message("T", b"x", delay_level=1))
            await producer.send(Message("T", b"x"), sharding_key="k")
            (queue, *_) = await producer.queues("T")
            await producer.send(Message("T", b"x"), queue=queue)
            assert [command.ext["m"] for command in cluster.brokers["a"].sends] == ["false"] * 3

    run(main())


def test_cancelling_one_send_does_not_affect_its_batch() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server, linger=0.05) as producer:
            sends = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(3)]
            await asyncio.sleep(0)
            sends[1].cancel()
            results = await asyncio.gather(*sends, return_exceptions=True)
            assert isinstance(results[1], asyncio.CancelledError)
            assert not isinstance(results[0], BaseException)
            assert not isinstance(results[2], BaseException)

    run(main())


def test_waiting_sends_fail_when_the_client_is_closed() -> None:
    async def main() -> None:
        async with (
            Cluster("a") as cluster,
            Producer("g", cluster.name_server, linger=600, send_timeout=60) as producer,
        ):
            broker, gathering = cluster.brokers["a"], producer._accumulator
            assert gathering is not None
            broker.is_silent = True
            sends = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(3)]
            await until(lambda: gathering._gathering)
            gathering._flush(("T", True))
            await until(lambda: broker.sends)
            sends[0].cancel()
            # A batch whose task exists but has not run its first step.
            sends.append(asyncio.create_task(producer.send(Message("T", b"y"))))
            await until(lambda: gathering._gathering)
            gathering._flush(("T", True))
            await producer._instance.close()
            cancelled, *cut_off = await asyncio.gather(*sends, return_exceptions=True)
            assert isinstance(cancelled, asyncio.CancelledError)
            assert [type(result) for result in cut_off] == [StateError] * 3

    run(main())


def test_hooks_are_called_for_each_attempt_and_their_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    class Seeing(SendHook):
        def before(self, context: SendContext) -> None:
            context.state["seen"] = True
            seen.append(f"before {context.queue.broker_name}")

        def after(self, context: SendContext) -> None:
            assert context.state["seen"]
            seen.append(f"after {'ok' if context.result else type(context.error).__name__}")
            raise RuntimeError("a hook's own fault")

    class Forbidding(SendHook):
        def forbid(self, context: SendContext) -> None:
            if context.topic == "U":
                raise MessageInvalid("not to U")

    async def main() -> None:
        async with (
            Cluster("a") as cluster,
            Producer("g", cluster.name_server, hooks=[Seeing(), Forbidding()]) as producer,
        ):
            cluster.topics.add("U")
            cluster.brokers["a"].answers = [Answer(1)]
            assert (await producer.send(Message("T", b"x"))).ok
            with pytest.raises(MessageInvalid):
                await producer.send(Message("U", b"x"))
            await producer.send_oneway(Message("T", b"x"))

    with caplog.at_level(logging.ERROR):
        run(main())
    assert seen[:4] == ["before a", "after BrokerError", "before a", "after ok"]
    assert "a hook's own fault" in caplog.text


def test_hooks_are_called_at_the_end_of_a_transaction() -> None:
    seen: list[EndTransactionContext] = []

    class Seeing(EndTransactionHook):
        def end_transaction(self, context: EndTransactionContext) -> None:
            seen.append(context)

    async def main() -> None:
        async with (
            Cluster("a") as cluster,
            TransactionProducer("g", cluster.name_server, check=lambda _m: None, hooks=[Seeing()]) as producer,
        ):
            result = await producer.send_in_transaction(Message("T", b"x", keys="k"), execute=lambda _m, _a: False)
            assert [(one.message_id, one.state, one.keys) for one in seen] == [
                (result.message_id, "ROLLBACK_MESSAGE", "k")
            ]

    run(main())


def test_half_message_that_is_not_stored_safely_runs_nothing_and_is_rolled_back() -> None:
    async def main() -> None:
        ran: list[object] = []
        async with (
            Cluster("a") as cluster,
            TransactionProducer("g", cluster.name_server, check=lambda _m: None) as producer,
        ):
            broker = cluster.brokers["a"]
            broker.answers = [Answer(10)]
            result = await producer.send_in_transaction(Message("T", b"x"), execute=lambda m, _a: ran.append(m))
            assert result.state is TransactionState.ROLLBACK
            assert not ran
            await until(lambda: any(one.ext.get("commitOrRollback") == "12" for one in broker.others))

    run(main())


def test_blocking_local_transactions_delay_neither_checks_nor_other_threads() -> None:
    async def main() -> None:
        may_go_on = threading.Event()
        at_work: list[object] = []

        def execute(message: Message, _arg: object) -> bool:
            at_work.append(message)
            return may_go_on.wait(60)

        async with (
            Cluster("a") as cluster,
            TransactionProducer(
                "g", cluster.name_server, check=lambda _m: False, execute=execute, send_timeout=60
            ) as producer,
        ):
            broker = cluster.brokers["a"]
            await until(lambda: broker.heartbeats)
            sends = [asyncio.create_task(producer.send_in_transaction(Message("T", b"x"))) for _ in range(THREADS)]
            try:
                await until(lambda: len(at_work) == THREADS)
                await asyncio.to_thread(len, at_work)
                half = encode_record(topic="T", body=b"x", properties=b"PGROUP\x01g\x02UNIQ_KEY\x01id-1\x02")
                ext = {"tranStateTableOffset": "1", "commitLogOffset": "2", "msgId": "id-1"}
                broker.push(RequestCode.CHECK_TRANSACTION_STATE, ext, half)
                await until(lambda: any(one.ext.get("fromTransactionCheck") == "true" for one in broker.others))
            finally:
                may_go_on.set()
            assert {result.state for result in await asyncio.gather(*sends)} == {TransactionState.COMMIT}

    run(main())


def test_local_transaction_sees_the_context_of_its_sender() -> None:
    number = contextvars.ContextVar("number", default=0)

    async def main() -> None:
        async with (
            Cluster("a") as cluster,
            TransactionProducer("g", cluster.name_server, check=lambda _m: None) as producer,
        ):
            number.set(5)
            result = await producer.send_in_transaction(Message("T", b"x"), execute=lambda *_: number.get() == 5)
            assert result.state is TransactionState.COMMIT

    run(main())


def test_local_transactions_return_a_state_or_true_false_or_none() -> None:
    assert [state_of(one) for one in (True, False, None, TransactionState.COMMIT)] == [
        TransactionState.COMMIT,
        TransactionState.ROLLBACK,
        TransactionState.UNKNOWN,
        TransactionState.COMMIT,
    ]
    with pytest.raises(TypeError):
        state_of("commit")  # type: ignore[arg-type]


def java_records() -> list[list[str]]:
    """The fields of the trace records that the official client sent."""
    bodies = []
    for line in frames("trace"):
        if (
            line.get("code") in (10, 310)
            and line["from"] == "client"
            and "RMQ_SYS_TRACE_TOPIC" in line["extFields"].values()
        ):
            assert line["bytes"] is not None
            bodies.append(line["bytes"][-line["bodyLength"] :].decode())
    return [record.split("\x01") for body in bodies for record in body.split("\x02") if record]


def test_records_have_the_fields_of_the_java_clients_in_their_order() -> None:
    theirs = java_records()
    kinds = {record[0] for record in theirs}
    assert {"Pub", "SubBefore", "SubAfter"} <= kinds
    for record in theirs:
        if record[0] == "Pub":
            ours = publish_record(
                timestamp=int(record[1]), region=record[2], group=record[3], topic=record[4], message_id=record[5], tags=record[6],
                keys=record[7], broker_address=record[8], body_size=int(record[9]), cost_ms=int(record[10]),
                kind=MessageKind(int(record[11])), offset_message_id=record[12], is_success=record[13] == "true",
            )  # fmt: skip
        elif record[0] == "SubBefore":
            ours = consume_before_record(
                timestamp=int(record[1]), region=record[2], group=record[3], request_id=record[4], message_id=record[5],
                retry_times=int(record[6]), keys=record[7],
            )  # fmt: skip
        elif record[0] == "SubAfter":
            ours = consume_after_record(
                request_id=record[1], message_id=record[2], cost_ms=int(record[3]), is_success=record[4] == "true", keys=record[5],
                code=TraceConsumeCode(int(record[6])), timestamp=int(record[7]), group=record[8],
            )  # fmt: skip
        else:
            continue
        assert ours.text[:14].split("\x01")[0] == record[0]
        mine, other = ours.text.removesuffix("\x02").split("\x01"), list(record)
        if record[0] == "SubBefore" and other[2] == "null":
            mine[2] = "null"
        assert mine == other


def test_trace_records_of_transactions_have_rocketmqs_format() -> None:
    ours = end_transaction_record(
        timestamp=5, region="DefaultRegion", group="g", topic="T", message_id="ID", tags=None, keys="a b", broker_address="h:1",
        transaction_id=None, state="COMMIT_MESSAGE", is_from_check=True,
    )  # fmt: skip
    fields = [
        "EndTransaction",
        "5",
        "DefaultRegion",
        "g",
        "T",
        "ID",
        "",
        "a b",
        "h:1",
        "2",
        "null",
        "COMMIT_MESSAGE",
        "true",
    ]
    assert ours.text == "\x01".join(fields) + "\x02"
    assert ours.keys == {"ID", "a", "b"}


def test_trace_records_are_sent_together_after_a_pause() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            cluster.topics.add("RMQ_SYS_TRACE_TOPIC")
            async with Producer("g", cluster.name_server, trace=True) as producer:
                for _ in range(5):
                    await producer.send(Message("T", b"x", keys="k"))
                await producer.send_batch([Message("T", b"x"), Message("T", b"x")])
            traced = [command for command in cluster.brokers["a"].sends if command.ext["b"] == "RMQ_SYS_TRACE_TOPIC"]
            assert len(traced) == 1
            assert traced[0].ext["a"].startswith("_INNER_TRACE_PRODUCER-g-PRODUCE-")
            assert traced[0].body.count(b"\x02") == 7
            assert "KEYS" in traced[0].ext["i"]

    run(main())
