"""HandlerCalls: one call of a handler, with its start time, hooks and outcome (client spec 3.8, 3.9).

Used in threads and tasks of workers, by the concurrent and the orderly service, and for messages that a broker has consumed directly.
"""

import asyncio
import time
from collections.abc import Sequence

from headrace.client.consuming.consume_hooks import ConsumeHook, HandlingContext, call_hooks
from headrace.client.consuming.push.consume_handler import Handler, HandlerFunction
from headrace.client.consuming.push.consume_result import ConsumeContext, Failure
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.namespace import wrap
from headrace.client.tracing.trace_records import TraceConsumeCode
from headrace.errors import StateError
from headrace.model.message_queue import MessageQueue


class Handlers:
    """The handler of each topic. Topics include the namespace."""

    def __init__(self, namespace: str | None) -> None:
        self._namespace = namespace
        self._by_topic: dict[str, Handler] = {}
        self.default: Handler | None = None

    def put(self, topic: str, handler: Handler) -> None:
        """Sets a topic's handler."""
        self._by_topic[topic] = handler

    def functions(self) -> list[HandlerFunction]:
        """Returns the handlers that are coroutine functions."""
        known = [*self._by_topic.values(), *([self.default] if self.default is not None else [])]
        return [handler.call for handler in known if handler.is_async]

    @property
    def is_empty(self) -> bool:
        """Whether there is no handler."""
        return not self._by_topic and self.default is None

    def of_topic(self, topic: str) -> Handler:
        """Returns the handler of a topic. Raises StateError if it has none."""
        handler = self._by_topic.get(topic, self.default)
        if handler is None:
            raise StateError(
                f"the topic {topic} has no handler; pass one to subscribe(), or set a default with @consumer.handler"
            )
        return handler

    def calls(
        self, queue: MessageQueue, messages: Sequence[ReceivedMessage], batch_size: int
    ) -> list[tuple[Handler, list[Sequence[ReceivedMessage]]]]:
        """Splits messages, in order, into the calls of their handlers."""
        if not messages[0].origin.is_retry:
            handler = self.of_topic(queue.topic)
            return [(handler, _cut(handler, messages, batch_size))]
        # A retry topic contains messages of all topics of the group.
        runs: list[tuple[Handler, list[ReceivedMessage]]] = []
        for message in messages:
            handler = self._by_topic.get(wrap(self._namespace, message.topic)) or self._any()
            if not runs or runs[-1][0] is not handler:
                runs.append((handler, []))
            runs[-1][1].append(message)
        return [(handler, _cut(handler, run, batch_size)) for handler, run in runs]

    def _any(self) -> Handler:
        return self.default or next(iter(self._by_topic.values()))


def _cut(handler: Handler, messages: Sequence[ReceivedMessage], batch_size: int) -> list[Sequence[ReceivedMessage]]:
    if not handler.is_batch:
        return [(message,) for message in messages]
    return [messages[at : at + batch_size] for at in range(0, len(messages), batch_size)]


class HandlerCalls:
    """Calls handlers for one group."""

    def __init__(self, group: str, hooks: Sequence[ConsumeHook], timeout_s: float, *, stamp: bool) -> None:
        """`stamp`: record on each message when it was given to its handler. `timeout_s`: longer calls count as timed out in traces."""
        self._group = group
        self.hooks: list[ConsumeHook] = list(hooks)
        self._timeout_s = timeout_s
        self._stamp = stamp
        self._loop = asyncio.get_running_loop()

    def call(
        self, handler: Handler, messages: Sequence[ReceivedMessage], context: ConsumeContext | None = None
    ) -> Failure | None:
        """Calls a plain function, in this thread."""
        if self._stamp:
            now_ms = time.time_ns() // 1_000_000
            for message in messages:
                message.started_ms = now_ms
        if not self.hooks:
            return handler.handle(messages, context, self._loop)
        hook_context = self._before(messages)
        began = time.monotonic()
        outcome = handler.handle(messages, context, self._loop)
        self._after(hook_context, messages, outcome, time.monotonic() - began)
        return outcome

    async def call_async(
        self, handler: Handler, messages: Sequence[ReceivedMessage], context: ConsumeContext | None = None
    ) -> Failure | None:
        """Calls a coroutine function."""
        if self._stamp:
            now_ms = time.time_ns() // 1_000_000
            for message in messages:
                message.started_ms = now_ms
        if not self.hooks:
            return await handler.handle_async(messages, context)
        hook_context = self._before(messages)
        began = time.monotonic()
        outcome = await handler.handle_async(messages, context)
        self._after(hook_context, messages, outcome, time.monotonic() - began)
        return outcome

    def _before(self, messages: Sequence[ReceivedMessage]) -> HandlingContext:
        hook_context = HandlingContext(self._group, messages[0].queue, messages)
        call_hooks(self.hooks, "before", hook_context)
        return hook_context

    def _after(
        self,
        hook_context: HandlingContext,
        messages: Sequence[ReceivedMessage],
        outcome: Failure | None,
        elapsed_s: float,
    ) -> None:
        if outcome is not None and outcome.error is not None:
            hook_context.code, hook_context.error = TraceConsumeCode.EXCEPTION, outcome.error
        elif elapsed_s >= self._timeout_s:
            hook_context.code = TraceConsumeCode.TIME_OUT
        elif outcome is not None and outcome.first < len(messages):
            hook_context.code = TraceConsumeCode.FAILED
        call_hooks(self.hooks, "after", hook_context)
