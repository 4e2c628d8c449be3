"""Hooks: what a program wants to see of its sends. What `before` and `after` raise is logged and does no harm (client spec 2.14).

class Counting(SendHook):
    def after(self, context: SendContext) -> None:
        sent.labels(context.topic).inc()
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import TracebackType
from typing import Any

from headrace.client.sending.send_result import SendResult
from headrace.model.message import Message
from headrace.model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class MessageKind(IntEnum):
    """What kind of message it is, as trace records number it."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3


@dataclass(slots=True)
class SendContext:
    """One attempt to send. `topic` and `queue` carry the namespace; `body_size` is after compression; `state` is for the hook to keep things in."""

    group: str
    topic: str
    messages: Sequence[Message]
    unique_ids: Sequence[str]
    queue: MessageQueue
    broker_address: str
    kind: MessageKind
    body_size: int
    is_oneway: bool = False
    result: SendResult | None = None
    error: BaseException | None = None
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Sending:
    """One send, of one message or of a batch, whatever attempts it takes. `state` is for the hook to keep things in.

    `messages` are copies of the program's: what a hook adds to their properties travels with them. At the end `result` or `error` is there; for a
    one-way send neither.
    """

    group: str
    messages: list[Message]
    is_oneway: bool = False
    result: SendResult | None = None
    error: BaseException | None = None
    state: dict[str, Any] = field(default_factory=dict)


class SendHook:
    """Sees each send and each attempt of it; override what you need. `forbid` may raise, which fails the attempt."""

    def begin(self, sending: Sending) -> None:
        """The program has called; nothing has been done yet."""

    def end(self, sending: Sending) -> None:
        """The program is about to get the result or the error."""

    def forbid(self, context: SendContext) -> None:
        """Before all else: raise to keep the message from being sent."""

    def before(self, context: SendContext) -> None:
        """The message is about to be sent."""

    def after(self, context: SendContext) -> None:
        """`context.result` or `context.error` is there; for a one-way send neither."""


@dataclass(slots=True)
class EndTransactionContext:
    """The end of a transaction. `state` is COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW."""

    group: str
    topic: str
    message_id: str
    transaction_id: str | None
    tags: str | None
    keys: str | None
    broker_address: str
    state: str
    is_from_check: bool


class EndTransactionHook(SendHook):
    """A SendHook that sees the ends of transactions as well."""

    def end_transaction(self, context: EndTransactionContext) -> None:
        """The broker is about to be told."""


class Observation:
    """What goes on around a send: `with Observation(…) as sending:`, and within `sending.result = …`.

    `observers` are hooks that have a `begin` or an `end`; without any, it costs next to nothing.
    """

    __slots__ = ("_observers", "_sending")

    def __init__(
        self, observers: Sequence[SendHook], group: str, messages: Sequence[Message], *, is_oneway: bool
    ) -> None:
        if observers:
            messages = [Message(one.topic, one.body, flag=one.flag, properties=one.properties) for one in messages]
        self._observers = observers
        self._sending = Sending(group, list(messages), is_oneway)

    def __enter__(self) -> Sending:
        if self._observers:
            call_safely(self._observers, "begin", self._sending)
        return self._sending

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._observers:
            self._sending.error = error
            call_safely(self._observers, "end", self._sending)


def observers_among(hooks: Sequence[SendHook]) -> list[SendHook]:
    """The hooks that see whole sends."""
    return [
        hook
        for hook in hooks
        if any(getattr(type(hook), name, None) not in (None, getattr(SendHook, name)) for name in ("begin", "end"))
    ]


def call_safely(hooks: Sequence[SendHook], method: str, context: SendContext | EndTransactionContext | Sending) -> None:
    """Calls a method of those hooks that have it; what they raise is logged."""
    for hook in hooks:
        call = getattr(hook, method, None)
        if call is not None:
            try:
                call(context)
            except Exception:
                logger.exception("hook failed hook=%s method=%s", type(hook).__name__, method)
