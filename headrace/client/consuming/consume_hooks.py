"""Consume hooks: callbacks around each call of a handler; message trace is one of them (client spec 2.14, 2.15).

    class Timing(ConsumeHook):
        def before(self, context: HandlingContext) -> None:
            context.state["began"] = time.perf_counter()

        def after(self, context: HandlingContext) -> None:
            seconds.labels(context.queue.topic, context.code.name).observe(time.perf_counter() - context.state["began"])

Hooks of plain handlers are called in the handlers' threads. Exceptions of hooks are logged and have no other effect.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.client.cluster.unique_ids import create_unique_id
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.durations import now_ms
from headrace.client.namespace import unwrap_any
from headrace.client.sending.send_result import DEFAULT_REGION
from headrace.client.tracing.trace import TraceDispatcher
from headrace.client.tracing.trace_records import (
    TraceConsumeCode,
    TraceRecord,
    consume_after_record,
    consume_before_record,
)
from headrace.model import properties as names
from headrace.model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class HandlingContext:
    """One call of a handler. `code` is the outcome; `state` is for the hook's own data."""

    group: str
    queue: MessageQueue
    messages: Sequence[ReceivedMessage]
    code: TraceConsumeCode = TraceConsumeCode.SUCCESS
    error: BaseException | None = None
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def is_success(self) -> bool:
        """Whether all messages were consumed."""
        return self.code is TraceConsumeCode.SUCCESS


class ConsumeHook:
    """Called around each call of a handler; override what you need."""

    def before(self, context: HandlingContext) -> None:
        """Called before the handler."""

    def after(self, context: HandlingContext) -> None:
        """Called after the handler."""


def call_hooks(hooks: Sequence[ConsumeHook], method: str, context: HandlingContext) -> None:
    """Calls a method of all hooks; logs the exceptions that they raise."""
    for hook in hooks:
        try:
            getattr(hook, method)(context)
        except Exception:
            logger.exception("hook failed hook=%s method=%s", type(hook).__name__, method)


class ConsumeTraceHook(ConsumeHook):
    """Writes two trace records for each message, before and after it is consumed, unless its trace is off. Created in the loop."""

    def __init__(self, dispatcher: TraceDispatcher) -> None:
        self._dispatcher = dispatcher
        self._loop = asyncio.get_running_loop()

    def before(self, context: HandlingContext) -> None:
        """Writes the first record."""
        request_id, start = create_unique_id(), now_ms()
        traced = [one for one in context.messages if one.properties.get(names.TRACE_ON) != "false"]
        context.state["trace"] = request_id, start, traced
        for message in traced:
            self._append(
                consume_before_record(
                    timestamp=start,
                    region=message.properties.get(names.MSG_REGION) or DEFAULT_REGION,
                    group=unwrap_any(context.group),
                    request_id=request_id,
                    message_id=message.message_id,
                    retry_times=message.reconsume_times,
                    keys=message.properties.get(names.KEYS),
                )
            )

    def after(self, context: HandlingContext) -> None:
        """Writes the second record."""
        request_id, start, traced = context.state["trace"]
        now = now_ms()
        for message in traced:
            self._append(
                consume_after_record(
                    request_id=request_id,
                    message_id=message.message_id,
                    cost_ms=(now - start) // len(context.messages),
                    is_success=context.is_success,
                    keys=message.properties.get(names.KEYS),
                    code=context.code,
                    timestamp=now,
                    group=unwrap_any(context.group),
                    is_cloud=self._dispatcher.trace.cloud_region is not None,
                )
            )

    def _append(self, record: TraceRecord) -> None:
        # Plain handlers run in other threads.
        self._loop.call_soon_threadsafe(self._dispatcher.append, record)
