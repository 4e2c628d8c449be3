"""The version of a table that brokers and name servers compare."""

import time

from msgspec import Struct, field


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class DataVersion(Struct, frozen=True):
    """When a table last changed (ms) and how often it has changed; versions are equal only if both are."""

    timestamp: int = field(default_factory=_now_ms)
    counter: int = 0

    def next(self, timestamp: int | None = None) -> "DataVersion":
        """Returns the version after one more change, at `timestamp` (ms) or now."""
        return DataVersion(_now_ms() if timestamp is None else timestamp, self.counter + 1)
