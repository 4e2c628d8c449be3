"""The outcome of a handler: by what it returns or raises, or what it sets in its context (client spec 3.8, 3.9).

returns nothing, or ConsumeResult.SUCCESS      consumed
returns ConsumeResult.RETRY, raises anything   redelivered later; an orderly consumer blocks the queue until it succeeds
raises Retry(delay_level=3)                    redelivered after that delay level
raises Reject()                                sent to the group's dead letters at once
raises Suspend(5.0)                            (orderly) redelivered after 5 seconds
"""

# ruff: noqa: N818 (they are results of a handler, not errors)

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.client.durations import Duration, seconds
from headrace.model.message_queue import MessageQueue

ALL: Final = 1 << 31
TO_DEAD_LETTERS: Final = -1


class ConsumeResult(Enum):
    """What a handler returns. None means SUCCESS."""

    SUCCESS = "SUCCESS"
    RETRY = "RETRY"


class Retry(Exception):
    """Raised by a handler: redeliver the message after a delay level (1 to 18), or after the broker's choice (0)."""

    def __init__(self, delay_level: int = 0, reason: str = "") -> None:
        super().__init__(reason or "to be retried")
        self.delay_level = delay_level


class Reject(Exception):
    """Raised by a handler: the message cannot be processed; send it to the group's dead letters, `%DLQ%group`."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "rejected")


class Suspend(Exception):
    """Raised by a handler of an orderly consumer: block the queue for this time, then redeliver the message."""

    def __init__(self, duration: Duration = 1.0, reason: str = "") -> None:
        super().__init__(reason or "suspended")
        self.seconds = seconds(duration)


class LeftToQueue(BaseException):
    """Raised by the internal handler of message streams: the consumer closes, and the message neither succeeded nor failed."""


@dataclass(slots=True)
class ConsumeContext:
    """Passed to batch handlers with the messages; they may change it.

    `ack_index`: on success, messages after this index count as failed. `delay_level`: for the failed ones. Orderly with `auto_commit=False`: messages
    count as consumed only after `commit()`; `rollback()` redelivers those since then. `suspend_seconds`: how long the queue is blocked.
    """

    queue: MessageQueue
    ack_index: int = ALL
    delay_level: int = 0
    auto_commit: bool = True
    suspend_seconds: float | None = None
    decision: str | None = None

    def commit(self) -> None:
        """(Orderly, `auto_commit=False`) Commits all messages since the last commit."""
        self.decision = "commit"

    def rollback(self) -> None:
        """(Orderly, `auto_commit=False`) Redelivers all messages since the last commit."""
        self.decision = "rollback"


@dataclass(slots=True)
class Failure:
    """The outcome of a handler that did not consume all its messages: those from `first` on failed."""

    first: int = 0
    delay_level: int = 0
    error: BaseException | None = None
    suspend_seconds: float | None = None
    decision: str | None = None
    is_committed: bool = True
