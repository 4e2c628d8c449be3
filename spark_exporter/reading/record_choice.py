"""Which records are exported: by topic and by store time.

Half and delay messages are in the log twice, first in an internal topic and then in the real one. So internal topics
are excluded unless requested; retry topics and dead letters are separate messages and are included.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

from headrace.model.names import (
    OFFSET_MOVED_EVENT_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TRANSACTION_CHECK_MAX_TIME_TOPIC,
)

FIRST_MS: Final = -(1 << 62)
END_MS: Final = 1 << 62

_PREFIXES: Final = ("RMQ_SYS_", "rmq_sys_")
_NAMES: Final = frozenset({
    SCHEDULE_TOPIC, TRANSACTION_CHECK_MAX_TIME_TOPIC, OFFSET_MOVED_EVENT_TOPIC, SELF_TEST_TOPIC,
})  # fmt: skip


def is_brokers_own(topic: str) -> bool:
    """Whether the topic is internal to brokers: half, op, delay, timer, trace and event messages."""
    return topic.startswith(_PREFIXES) or topic in _NAMES


@dataclass(frozen=True, slots=True)
class RecordChoice:
    """Selects the records that are rows. Picklable, for executors.

    `topics`: these only, whosever they are; None: all but the brokers' own, or with `include_system` all. Of them those with
    `first_ms` <= store timestamp < `end_ms`. `without`: never these; for who looks through a log, no target remembers it.
    """

    topics: frozenset[str] | None = None
    include_system: bool = False
    first_ms: int = FIRST_MS
    end_ms: int = END_MS
    without: frozenset[str] = frozenset()

    def is_wanted(self, topic: str) -> bool:
        """Whether records of the topic are rows."""
        if topic in self.without:
            return False
        if self.topics is not None:
            return topic in self.topics
        return self.include_system or not is_brokers_own(topic)

    def as_json(self) -> dict[str, Any]:
        """For the target's own record of its contents."""
        return {
            "topics": None if self.topics is None else sorted(self.topics),
            "include_system": self.include_system,
            "first_ms": None if self.first_ms == FIRST_MS else self.first_ms,
            "end_ms": None if self.end_ms == END_MS else self.end_ms,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `as_json`."""
        return cls(
            None if data["topics"] is None else frozenset(data["topics"]),
            data["include_system"],
            FIRST_MS if data["first_ms"] is None else data["first_ms"],
            END_MS if data["end_ms"] is None else data["end_ms"],
        )
