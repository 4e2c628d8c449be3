"""What a handler may say of the messages it was given: by what it returns, by what it raises, or in its context (client spec 3.8, 3.9).

returns nothing, or ConsumeResult.SUCCESS      done
returns ConsumeResult.RETRY, raises anything   again, later; an orderly consumer holds the queue up until it works
raises Retry(delay_level=3)                    again, after that delay level
raises Reject()                                to the group's dead letters, at once
raises Suspend(5.0)                            (orderly) again, after so many seconds
"""

# ruff: noqa: N818 (these are words of a handler, not errors)

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.client.durations import Duration, seconds
from headrace.model.message_queue import MessageQueue

ALL: Final = 1 << 31
TO_DEAD_LETTERS: Final = -1


class ConsumeResult(Enum):
    """What a handler returns. Nothing (None) is SUCCESS."""

    SUCCESS = "SUCCESS"
    RETRY = "RETRY"


class Retry(Exception):
    """Raised by a handler: give me the message again, after a delay level (1 to 18), or after the broker's choice (0)."""

    def __init__(self, delay_level: int = 0, reason: str = "") -> None:
        super().__init__(reason or "to be retried")
        self.delay_level = delay_level


class Reject(Exception):
    """Raised by a handler: this message cannot be handled; it goes to the group's dead letters, `%DLQ%group`."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "rejected")


class Suspend(Exception):
    """Raised by a handler of an orderly consumer: hold the queue up for so long, then give me the message again."""

    def __init__(self, duration: Duration = 1.0, reason: str = "") -> None:
        super().__init__(reason or "suspended")
        self.seconds = seconds(duration)


class LeftToQueue(BaseException):
    """Raised inside, by what stands in for a handler: the consumer closes, and the message was not handled, nor did it fail."""


@dataclass(slots=True)
class ConsumeContext:
    """What a handler of batches is given beside the messages, and may set.

    `ack_index`: on success, messages behind this place count as failed. `delay_level`: for those that failed. Orderly, with `auto_commit=False`:
    nothing is done with until `commit()`; `rollback()` gives again what was given since. `suspend_seconds`: how long the queue is held up.
    """

    queue: MessageQueue
    ack_index: int = ALL
    delay_level: int = 0
    auto_commit: bool = True
    suspend_seconds: float | None = None
    decision: str | None = None

    def commit(self) -> None:
        """(Orderly, `auto_commit=False`) All that was given since the last commit is done with."""
        self.decision = "commit"

    def rollback(self) -> None:
        """(Orderly, `auto_commit=False`) All that was given since the last commit is to be given again."""
        self.decision = "rollback"


@dataclass(slots=True)
class Failure:
    """A handler did not do with all its messages: those from `first` on failed."""

    first: int = 0
    delay_level: int = 0
    error: BaseException | None = None
    suspend_seconds: float | None = None
    decision: str | None = None
    is_committed: bool = True
