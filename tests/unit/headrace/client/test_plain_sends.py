"""Plain sends: the same frames, results and retries as for prepared messages."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Message, MessageQueue, Producer, SendFailed, SendResult, SendStatus
from headrace.client.cluster.answer_scan import SendAnswer, take_answers
from headrace.client.cluster.send_pipeline import SendPipeline
from headrace.client.sending.send_result import stored_result
from headrace.errors import MessageIllegal, MessageInvalid, RequestTimeout, SendRequestError
from headrace.protocol.remoting_command import RESPONSE_FLAG, RemotingCommand, SerializeType
from headrace.remoting import Connection
from support.loops import until
from support.sdk import run
from support.sdk_cluster import Answer, Cluster, FakeBroker


async def warm(producer: Producer) -> None:
    """Sends to all queues once: after that, sends are plain."""
    for _ in range(4):
        await producer.send(Message("T", b"first"), timeout=30)


def connection_of(producer: Producer) -> Connection:
    connections = producer._instance._transport._client._connections.values()
    return next(one for one in connections if isinstance(one.hot_path, SendPipeline))


def asked(producer: Producer) -> int:
    """How many answers are awaited."""
    connections = producer._instance._transport._client._connections.values()
    return sum(
        len(one.hot_path) + len(one._pending or ()) for one in connections if isinstance(one.hot_path, SendPipeline)
    )


def deadlines(producer: Producer) -> int:
    return len(connection_of(producer).deadlines)


def goes_directly(producer: Producer, message: Message) -> bool:
    """Whether a message is sent plainly; if so, it is sent."""
    sender = producer._plain
    assert sender is not None
    attempt = sender.begin(message)
    if attempt is not None:
        attempt.abandon()
        attempt.answer.cancel()
    return attempt is not None


def without_ids(command: RemotingCommand) -> tuple[Any, ...]:
    ext = {name: "…" if name in ("g", "e") else value for name, value in command.ext.items()}
    ext["i"] = ext["i"][: -len("UNIQ_KEY") - 33] + "…" if "UNIQ_KEY" in ext["i"] else ext["i"]
    return command.code, command.flag, command.language, command.version, ext, command.body


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x"),
        Message("T", b"x", tags="TagÄ", flag=-5),
        Message("T", "größe", tags='quo"te\\', keys=["a", "b"], properties={"tab\t": "\x1f\x7f", "é": "\U0001f600"}),
        Message("T", b"x" * 4000, keys="one", delay_level=3),
    ],
)
def test_plain_and_prepared_sends_write_the_same_frames(message: Message) -> None:
    async def main() -> None:
        async with Cluster("a", queues=2) as cluster, Producer("g", cluster.name_server) as producer:
            await warm(producer)
            sends = cluster.brokers["a"].sends
            sends.clear()
            result = await producer.send(message)
            assert producer._plain is not None
            producer._plain = None
            other = await producer.send(message)
            short, ordinary = sends
            assert without_ids(short) == without_ids(ordinary)
            assert (other.status, other.region, other.trace_on) == (result.status, result.region, result.trace_on)
            assert {result.queue.queue_id, other.queue.queue_id} == {0, 1}
            assert result.message_id in short.ext["i"]
            assert other.queue_offset == result.queue_offset + 1
            assert len(result.offset_message_id) == len(other.offset_message_id)

    run(main())


def test_special_messages_are_prepared() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server) as producer:
            assert not goes_directly(producer, Message("T", b"x")), "nothing is known of the topic yet"
            await warm(producer)
            assert goes_directly(producer, Message("T", b"x"))
            for message in (
                Message("Other", b"x"),
                Message("T", b""),
                Message("T", b"x" * 4096),
                Message("T", b"x", wait_store=False),
                Message("T", b"x", properties={"UNIQ_KEY": "mine"}),
                Message("T", b"x", properties={"TRAN_MSG": "true"}),
                Message("T", b"x", properties={"MSG_TYPE": "reply"}),
                Message("T", b"x", properties={"lone": "\ud800"}),
            ):
                assert not goes_directly(producer, message)
            with pytest.raises(MessageInvalid):
                await producer.send(Message("T", b"x", properties={"a": "\x01"}))
            await until(lambda: asked(producer) == 0)

    run(main())


@pytest.mark.parametrize("code", [1, 14, 16, 17, 204, 205])
def test_after_a_retryable_error_another_broker_gets_the_same_id(code: int) -> None:
    async def main() -> None:
        async with Cluster("a", "b") as cluster, Producer("g", cluster.name_server) as producer:
            await warm(producer)
            for broker in cluster.brokers.values():
                broker.sends.clear()
                broker.answers = [Answer(code)]
            result = await producer.send(Message("T", b"x"))
            sends = [command for broker in cluster.brokers.values() for command in broker.sends]
            assert len(sends) == 3, "a, b, and then one that says yes"
            assert len({command.ext["i"] for command in sends}) == 1
            assert result.message_id in sends[0].ext["i"]

    run(main())


def test_error_that_is_not_retryable_is_raised_at_once() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server) as producer:
            await warm(producer)
            cluster.brokers["a"].answers = [Answer(13, "too large")]
            with pytest.raises(MessageIllegal, match="too large"):
                await producer.send(Message("T", b"x"))
            await until(lambda: asked(producer) == 0)

    run(main())


@pytest.mark.parametrize("retry_not_stored", [False, True])
def test_less_safely_stored_message_is_a_result_unless_retry_not_stored_is_set(retry_not_stored: bool) -> None:
    async def main() -> None:
        async with (
            Cluster("a") as cluster,
            Producer("g", cluster.name_server, retry_not_stored=retry_not_stored) as producer,
        ):
            await warm(producer)
            cluster.brokers["a"].answers = [Answer(10)]
            result = await producer.send(Message("T", b"x"))
            assert result.status is (SendStatus.SEND_OK if retry_not_stored else SendStatus.FLUSH_DISK_TIMEOUT)

    run(main())


def test_send_to_a_silent_broker_ends_at_its_timeout_and_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server, send_timeout=1.0) as producer:
            await warm(producer)
            cluster.brokers["a"].is_silent = True
            sends = [producer.send(Message("T", b"x")) for _ in range(20)]
            results = await asyncio.gather(*sends, return_exceptions=True)
            for result in results:
                assert isinstance(result, SendFailed)
                assert isinstance(result.__cause__, (RequestTimeout, SendRequestError))
            cluster.brokers["a"].is_silent = False
            assert (await producer.send(Message("T", b"x"), timeout=30)).ok
            await until(lambda: asked(producer) == 0)
            assert deadlines(producer) == 0

    run(main())


def test_sends_in_flight_on_a_broken_connection_are_retried() -> None:
    async def main() -> None:
        async with Cluster("a", "b") as cluster, Producer("g", cluster.name_server) as producer:
            await warm(producer)
            broken: FakeBroker = cluster.brokers["a"]
            broken.is_silent = True
            sends = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(10)]
            await until(lambda: broken.sends[4:])
            await broken.stop()
            results = await asyncio.gather(*sends)
            assert {result.queue.broker_name for result in results} == {"b"}

    run(main())


def test_cancelled_send_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server) as producer:
            await warm(producer)
            cluster.brokers["a"].answers = [Answer(delay_s=600)] * 10
            sends = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(10)]
            await until(lambda: asked(producer) == 10)
            for task in sends:
                task.cancel()
            await asyncio.gather(*sends, return_exceptions=True)
            assert all(task.cancelled() for task in sends)
            await until(lambda: asked(producer) == 0)
            assert deadlines(producer) == 0
            assert (await producer.send(Message("T", b"x"))).ok

    run(main())


def test_stored_result_equals_a_constructed_one() -> None:
    queue = MessageQueue("T", "a", 3)
    made = stored_result(SendStatus.SEND_OK, "id", "offset-id", queue, 7, None, "region", trace_on=False)
    assert made == SendResult(SendStatus.SEND_OK, "id", "offset-id", queue, 7, None, "region", trace_on=False)
    assert made.ok
    assert "queue_offset=7" in repr(made)


# ---- answers scanned from the bytes read


class Waiting:
    """Replaces a future."""

    def __init__(self) -> None:
        self.result: SendAnswer | None = None

    def done(self) -> bool:
        return self.result is not None

    def set_result(self, result: SendAnswer) -> None:
        self.result = result


def answer(opaque: int, code: int = 0, **fields: Any) -> RemotingCommand:
    ext = {"msgId": f"id{opaque}", "queueId": "3", "queueOffset": str(opaque * 7), **fields}
    return RemotingCommand(code, opaque=opaque, flag=RESPONSE_FLAG, ext_fields=ext)


ODD = [
    answer(1, code=14),
    answer(1, queueId="x"),
    answer(99),
    RemotingCommand(0, opaque=1, flag=RESPONSE_FLAG),
    RemotingCommand(0, opaque=1, flag=0, ext_fields=answer(1).ext_fields),
    RemotingCommand(
        0, opaque=1, flag=RESPONSE_FLAG, ext_fields=answer(1).ext_fields, serialize_type=SerializeType.ROCKETMQ
    ),
    RemotingCommand(0, opaque=-1, flag=RESPONSE_FLAG, ext_fields=answer(1).ext_fields),
]


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(0, 10_000), st.sampled_from([None, *ODD]))
def test_answers_are_scanned_up_to_the_first_other_frame(count: int, cut: int, odd: RemotingCommand | None) -> None:
    frames = [answer(opaque).encode() for opaque in range(2, 2 + count)]
    whole = b"".join(frames)
    data = whole + (odd.encode() if odd is not None else answer(1).encode())
    data = data[: len(data) - cut % len(data)]
    waiting: dict[int, Any] = {opaque: (Waiting(), {}) for opaque in range(1, 2 + count)}
    futures = {opaque: one[0] for opaque, one in waiting.items()}
    at, is_cut = take_answers(data, waiting)
    expected = 0
    for opaque, frame in enumerate(frames, 2):
        if expected + len(frame) > len(data):
            break
        expected += len(frame)
        found = futures[opaque].result
        assert found is not None
        assert (found.opaque, found.extFields.msgId, found.extFields.queueOffset) == (opaque, f"id{opaque}", opaque * 7)
        assert opaque not in waiting
    if odd is None and expected == len(whole) and len(data) == len(whole) + len(answer(1).encode()):
        expected = len(data)
    assert at == expected
    if at == len(data):
        assert not is_cut
    elif len(data) < len(whole):
        assert is_cut


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_not_an_answer_are_left_to_the_decoder(data: bytes) -> None:
    waiting: dict[int, Any] = {1: (Waiting(), {})}
    at, _ = take_answers(data, waiting)
    assert at == 0
    assert 1 in waiting
