"""OpenTelemetry: spans of sends and handler calls, by the semantic conventions for messaging; messages carry the trace context.

    from headrace.opentelemetry import ConsumerTelemetry, ProducerTelemetry

    Producer("orders", hooks=[ProducerTelemetry()])
    PushConsumer("billing", hooks=[ConsumerTelemetry()])

Needs the package `opentelemetry-api` (`pip install headrace[opentelemetry]`), which nothing else here imports. The program sets a tracer provider, which
decides what happens to the spans. The context is in message properties, as the program's propagator writes it (W3C: `traceparent`, `tracestate`), so
that programs in other languages can read it.

    send Orders        PRODUCER   one for each send, whatever the number of attempts; one for a batch, whose messages all carry its context
    process Orders     CONSUMER   one for each call of a handler, a child of the send's span for a single message, linked to the sends for a batch
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

import headrace
from headrace.client.consuming.consume_hooks import ConsumeHook, HandlingContext
from headrace.client.sending.send_hooks import SendContext, SendHook, Sending
from headrace.model import properties as names
from headrace.model.host import parse_host
from headrace.model.message import Message, MessageExt

_SYSTEM: Final = "rocketmq"
_SPAN: Final = "opentelemetry"


class ProducerTelemetry(SendHook):
    """A span for each send. `tracer_provider`: by default the program's global one."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = _tracer(tracer_provider)
        self._spans: dict[int, Span] = {}

    def begin(self, sending: Sending) -> None:
        """Starts the span and adds its context to the messages."""
        first = sending.messages[0]
        attributes = _attributes(first.topic, "send", sending.messages)
        attributes["messaging.rocketmq.client_group"] = sending.group
        delay_level = first.properties.get(names.DELAY)
        if delay_level is not None and delay_level.isdecimal():
            attributes["messaging.rocketmq.message.delay_time_level"] = int(delay_level)
        span = self._tracer.start_span(f"send {first.topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        sending.state[_SPAN] = span
        carried = trace.set_span_in_context(span)
        for message in sending.messages:
            propagate.inject(message.properties, carried)
        if span.is_recording():
            self._spans.update((id(message), span) for message in sending.messages)

    def before(self, context: SendContext) -> None:
        """Records the broker of the attempt."""
        span = self._spans.get(id(context.messages[0]))
        if span is not None:
            host, port = parse_host(context.broker_address)
            span.set_attributes({"server.address": host, "server.port": port})

    def end(self, sending: Sending) -> None:
        """Ends the span."""
        span: Span | None = sending.state.get(_SPAN)
        if span is None:
            return
        for message in sending.messages:
            self._spans.pop(id(message), None)
        result = sending.result
        if result is not None:
            if len(sending.messages) == 1:
                span.set_attribute("messaging.message.id", result.message_id)
            span.set_attribute("messaging.destination.partition.id", str(result.queue.queue_id))
            if not result.ok:
                span.set_attribute("error.type", result.status.name)
        if sending.error is not None:
            _failed(span, sending.error)
        span.end()


class ConsumerTelemetry(ConsumeHook):
    """A span for each call of a handler, current while it runs. `tracer_provider`: by default the program's global one."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = _tracer(tracer_provider)

    def before(self, context: HandlingContext) -> None:
        """Starts the span and makes it current."""
        messages = context.messages
        first = messages[0]
        attributes = _attributes(first.topic, "process", messages)
        attributes["messaging.consumer.group.name"] = context.group
        attributes["messaging.destination.partition.id"] = str(context.queue.queue_id)
        parent: Context | None = None
        links: list[Link] = []
        if len(messages) == 1:
            attributes["messaging.message.id"] = first.message_id
            parent = context_of(first)
        else:
            spans = (trace.get_current_span(context_of(message)).get_span_context() for message in messages)
            links = [Link(span) for span in spans if span.is_valid]
        span = self._tracer.start_span(
            f"process {first.topic}", parent, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        )
        context.state[_SPAN] = span, contexts.attach(trace.set_span_in_context(span, parent))

    def after(self, context: HandlingContext) -> None:
        """Ends the span."""
        span, token = context.state[_SPAN]
        contexts.detach(token)
        if context.error is not None:
            _failed(span, context.error)
        elif not context.is_success:
            span.set_attribute("error.type", context.code.name)
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def context_of(message: MessageExt) -> Context:
    """Returns the context that a message was sent in, as the parent of your own spans, for pulled messages (`LitePullConsumer`)."""
    return propagate.extract(message.properties, Context())


def _tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("headrace", headrace.__version__, provider)


def _attributes(topic: str, operation: str, messages: Sequence[Message | MessageExt]) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "messaging.system": _SYSTEM,
        "messaging.destination.name": topic,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    if len(messages) > 1:
        attributes["messaging.batch.message_count"] = len(messages)
        return attributes
    (message,) = messages
    properties: Mapping[str, str] = message.properties
    attributes["messaging.message.body.size"] = len(message.body)
    if names.TAGS in properties:
        attributes["messaging.rocketmq.message.tag"] = properties[names.TAGS]
    if names.KEYS in properties:
        attributes["messaging.rocketmq.message.keys"] = properties[names.KEYS].split(names.KEY_SEPARATOR)
    return attributes


def _failed(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__qualname__)
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))
