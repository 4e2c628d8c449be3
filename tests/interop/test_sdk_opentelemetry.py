"""OpenTelemetry: sending and handling are spans of one trace, propagated in the messages."""

import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headrace import (
    ConsumeContext,
    Message,
    MessageInvalid,
    PushConsumer,
    ReceivedMessage,
    Retry,
    StartFrom,
    TransactionProducer,
)
from headrace.opentelemetry import ConsumerTelemetry, ProducerTelemetry, context_of
from support.consuming import config_for, create_topic, eventually
from support.sdk import PATIENCE_S, producing, run
from support.servers import Server

EXPORTER = InMemorySpanExporter()
PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))
TRACER = PROVIDER.get_tracer("test")


@pytest.fixture(autouse=True)
def exporter() -> InMemorySpanExporter:
    EXPORTER.clear()
    return EXPORTER


def spans(name: str) -> list[ReadableSpan]:
    """The ended spans with that name, in order."""
    return [span for span in EXPORTER.get_finished_spans() if span.name == name]


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def parent(span: ReadableSpan) -> tuple[int, int]:
    assert span.parent is not None
    return span.parent.trace_id, span.parent.span_id


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_handler_continues_the_trace_of_the_sender(server: Server, kind: str) -> None:
    topic = f"Telemetry{kind.title()}"

    async def main() -> None:
        await create_topic(server, topic, 1)
        current: list[int] = []

        def seen(message: ReceivedMessage) -> None:
            current.append(trace.get_current_span().get_span_context().span_id)
            assert trace.get_current_span(context_of(message)).get_span_context().is_valid
            if message.body == b"bad":
                raise Retry(delay_level=18)

        async def seen_async(message: ReceivedMessage) -> None:
            seen(message)

        consumer = PushConsumer(
            f"telemetry-{kind}", config_for(server), start_from=StartFrom.FIRST, hooks=[ConsumerTelemetry(PROVIDER)]
        )
        consumer.subscribe(topic, "*", seen_async if kind == "coroutine" else seen)
        async with (
            consumer,
            producing(config_for(server), "telemetry", hooks=[ProducerTelemetry(PROVIDER)]) as producer,
        ):
            message = Message(topic, b"good", tags="T", keys=["one", "two"])
            with TRACER.start_as_current_span("order") as order:
                result = await producer.send(message)
                await producer.send(Message(topic, b"bad"))
            assert "traceparent" not in message.properties, "the caller's message was changed"
            await eventually(lambda: len(spans(f"process {topic}")) == 2, "both handled")

        sent, _ = spans(f"send {topic}")
        good = next(span for span in spans(f"process {topic}") if parent(span) == ids(sent))
        (bad,) = [span for span in spans(f"process {topic}") if span is not good]
        assert parent(sent) == (order.get_span_context().trace_id, order.get_span_context().span_id)
        assert {ids(span)[0] for span in (sent, good, bad)} == {order.get_span_context().trace_id}
        assert (sent.kind, good.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
        assert ids(good)[1] in current, "the span was not current while the handler ran"
        assert dict(sent.attributes or {}) == {
            "messaging.system": "rocketmq",
            "messaging.destination.name": topic,
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.message.body.size": 4,
            "messaging.rocketmq.message.tag": "T",
            "messaging.rocketmq.message.keys": ("one", "two"),
            "messaging.rocketmq.client_group": "telemetry",
            "messaging.message.id": result.message_id,
            "messaging.destination.partition.id": "0",
            "server.address": "127.0.0.1",
            "server.port": int(server.broker.rpartition(":")[2]),
        }
        handled = dict(good.attributes or {})
        assert handled["messaging.consumer.group.name"] == f"telemetry-{kind}"
        assert handled["messaging.message.id"] == result.message_id
        assert (good.status.status_code, bad.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
        assert (bad.attributes or {})["error.type"] == "Retry"

    run(main())


def test_batch_is_one_span_linked_from_its_handler(server: Server) -> None:
    async def main() -> None:
        await create_topic(server, "TelemetryBatch", 1)
        consumer = PushConsumer(
            "telemetry-batch", config_for(server), start_from=StartFrom.FIRST, batch_size=32,
            hooks=[ConsumerTelemetry(PROVIDER)],
        )  # fmt: skip
        counts: list[int] = []

        @consumer.handler("TelemetryBatch", batch=True)
        async def handle(messages: list[ReceivedMessage], _context: ConsumeContext) -> None:
            counts.append(len(messages))

        async with producing(config_for(server), "telemetry", hooks=[ProducerTelemetry(PROVIDER)]) as producer:
            await producer.send_batch([Message("TelemetryBatch", str(number)) for number in range(5)])
        async with consumer:
            await eventually(lambda: sum(counts) == 5, "all handled")
        (sent,) = spans("send TelemetryBatch")
        assert (sent.attributes or {})["messaging.batch.message_count"] == 5
        handled = spans("process TelemetryBatch")
        assert [len(span.links) or 1 for span in handled] == counts
        assert {(link.context.trace_id, link.context.span_id) for span in handled for link in span.links} <= {ids(sent)}

    run(main())


def test_batched_failed_and_one_way_sends_are_spans(server: Server) -> None:
    async def main() -> None:
        hooks = [ProducerTelemetry(PROVIDER)]
        await create_topic(server, "TelemetryKinds", 1)
        async with producing(config_for(server), "telemetry-linger", hooks=hooks, linger=0.001) as producer:
            await producer.send(Message("TelemetryKinds", b"x"))
            await producer.send_oneway(Message("TelemetryKinds", b"x"))
            with pytest.raises(MessageInvalid):
                await producer.send(Message("TelemetryKinds", b""))
        async with TransactionProducer(
            "telemetry-transactions",
            config_for(server),
            check=lambda _message: True,
            hooks=hooks,
            send_timeout=PATIENCE_S,
        ) as transactions:
            await transactions.send_in_transaction(Message("TelemetryKinds", b"x"), execute=lambda _message, _arg: True)
        *sent, failed, half = spans("send TelemetryKinds")
        assert [span.status.status_code for span in (*sent, half)] == [StatusCode.UNSET] * 3
        assert failed.status.status_code is StatusCode.ERROR
        assert (failed.attributes or {})["error.type"] == "MessageInvalid"
        assert not hooks[0]._spans

    run(main())


def test_opentelemetry_is_imported_only_on_request() -> None:
    program = (
        "import sys, headrace, headrace.sync\n"
        "[getattr(headrace, name) for name in headrace.__all__]\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
