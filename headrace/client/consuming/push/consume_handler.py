"""Handlers: the program's functions for messages, plain or coroutine functions, called here; their outcomes are converted to one form.

    handler(message)                      one message for each call
    handler(messages, context)            with `batch=True`: up to `batch_size` messages of one queue

Plain functions run in worker threads, so they may block; coroutines run in the consumer's loop, so they must not.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.client.consuming.push.consume_result import (
    TO_DEAD_LETTERS,
    ConsumeContext,
    ConsumeResult,
    Failure,
    Reject,
    Retry,
    Suspend,
)
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.errors import ConfigError

logger = logging.getLogger(__name__)

HandlerFunction: TypeAlias = Callable[..., Any]

_logged: set[str] = set()


@dataclass(frozen=True, slots=True)
class Handler:
    """A function of the program, and how to call it."""

    call: HandlerFunction
    is_batch: bool
    is_async: bool

    @classmethod
    def of(cls, call: HandlerFunction, *, batch: bool = False) -> "Handler":
        """Raises ConfigError for an object that cannot be called."""
        if not callable(call):
            raise ConfigError(f"the handler {call!r} is not callable; pass a function", "handler")
        return cls(call, batch, inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__))

    @property
    def name(self) -> str:
        """Its name for log lines."""
        return getattr(self.call, "__qualname__", repr(self.call))

    def handle(
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext | None, loop: asyncio.AbstractEventLoop
    ) -> Failure | None:
        """Calls a plain function in this thread. Returns None if all messages were consumed."""
        try:
            if self.is_batch:
                context = context or ConsumeContext(messages[0].queue)
                result = self.call(messages, context)
            else:
                result = self.call(messages[0])
                if result is None and context is None:
                    return None
            if inspect.isawaitable(result):
                # A plain function that returns a coroutine: `lambda message: store(message)`.
                result = asyncio.run_coroutine_threadsafe(_wait(result), loop).result()
        except BaseException as error:  # noqa: BLE001 (any exception of a handler is its result; `sys.exit` would only end the worker's thread)
            return self._failure(error, messages, context or ConsumeContext(messages[0].queue))
        return self._verdict(result, messages, context or ConsumeContext(messages[0].queue))

    async def handle_async(self, messages: Sequence[ReceivedMessage], context: ConsumeContext | None) -> Failure | None:
        """Calls a coroutine function. Returns None if all messages were consumed."""
        try:
            if self.is_batch:
                context = context or ConsumeContext(messages[0].queue)
                result = await self.call(messages, context)
            else:
                result = await self.call(messages[0])
                if result is None and context is None:
                    return None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not this task was cancelled, but something that the handler awaited.
            return self._failure(error, messages, context or ConsumeContext(messages[0].queue))
        except Exception as error:  # noqa: BLE001 (any exception of a handler is its result)
            return self._failure(error, messages, context or ConsumeContext(messages[0].queue))
        return self._verdict(result, messages, context or ConsumeContext(messages[0].queue))

    def _verdict(self, result: Any, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Failure | None:
        if result is ConsumeResult.RETRY:
            return _failed(context)
        if result is not None and result is not ConsumeResult.SUCCESS and self.name not in _logged:
            _logged.add(self.name)
            logger.warning(
                "handler returned an unknown value, treated as success value=%r handler=%s topic=%s "
                "advice='return None or a ConsumeResult, or raise an exception'",
                result, self.name, messages[0].topic,
            )  # fmt: skip
        if context.decision is not None or not context.auto_commit:
            return Failure(len(messages), decision=context.decision, is_committed=context.auto_commit,
                           suspend_seconds=context.suspend_seconds)  # fmt: skip
        if context.ack_index + 1 < len(messages):
            return _failed(context, max(context.ack_index + 1, 0))
        return None

    def _failure(self, error: BaseException, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Failure:
        if isinstance(error, Retry):
            context.delay_level = error.delay_level
            return _failed(context, error=error)
        if isinstance(error, Reject):
            context.delay_level = TO_DEAD_LETTERS
            return _failed(context, error=error)
        if isinstance(error, Suspend):
            context.suspend_seconds = error.seconds
            return _failed(context, error=error)
        first = messages[0]
        logger.error(
            "handler failed handler=%s topic=%s queue=%s offset=%d messages=%d",
            self.name, first.origin.visible_queue.topic, first.origin.queue.label, first.queue_offset, len(messages), exc_info=error,
        )  # fmt: skip
        return _failed(context, error=error)


def _failed(context: ConsumeContext, first: int = 0, error: BaseException | None = None) -> Failure:
    return Failure(first, context.delay_level, error, context.suspend_seconds, None, context.auto_commit)


async def _wait(awaitable: Any) -> Any:
    return await awaitable
