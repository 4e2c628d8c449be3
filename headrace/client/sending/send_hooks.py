"""Send hooks: callbacks around each send. Exceptions from `before` and `after` are logged and have no other effect (client spec 2.14).

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
    """The kind of a message, numbered as in trace records."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3


@dataclass(slots=True)
class SendContext:
    """One attempt to send. `topic` and `queue` include the namespace; `body_size` is after compression; `state` is for the hook's own data."""

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
    """One send of a message or a batch, whatever the number of attempts. `state` is for the hook's own data.

    `messages` are copies of the program's: properties that a hook adds are sent with them. At the end `result` or `error` is set, except for a
    one-way send.
    """

    group: str
    messages: list[Message]
    is_oneway: bool = False
    result: SendResult | None = None
    error: BaseException | None = None
    state: dict[str, Any] = field(default_factory=dict)


class SendHook:
    """Observes each send and each of its attempts; override what you need. `forbid` may raise, which fails the attempt."""

    def begin(self, sending: Sending) -> None:
        """Called first, before anything is done."""

    def end(self, sending: Sending) -> None:
        """Called last, before the program gets the result or the error."""

    def forbid(self, context: SendContext) -> None:
        """Called before an attempt: raise an exception to prevent it."""

    def before(self, context: SendContext) -> None:
        """Called before the message is sent."""

    def after(self, context: SendContext) -> None:
        """Called after the attempt: `context.result` or `context.error` is set, except for a one-way send."""


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
    """A SendHook that is also called at the end of transactions."""

    def end_transaction(self, context: EndTransactionContext) -> None:
        """Called before the decision is sent to the broker."""


class Observation:
    """Runs the hooks around a send: `with Observation(…) as sending:`, and inside it `sending.result = …`.

    `observers` are the hooks that override `begin` or `end`; without any, it costs next to nothing.
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
    """Returns the hooks that override `begin` or `end`."""
    return [
        hook
        for hook in hooks
        if any(getattr(type(hook), name, None) not in (None, getattr(SendHook, name)) for name in ("begin", "end"))
    ]


def call_safely(hooks: Sequence[SendHook], method: str, context: SendContext | EndTransactionContext | Sending) -> None:
    """Calls a method of the hooks that have it; logs the exceptions that they raise."""
    for hook in hooks:
        call = getattr(hook, method, None)
        if call is not None:
            try:
                call(context)
            except Exception:
                logger.exception("hook failed hook=%s method=%s", type(hook).__name__, method)
