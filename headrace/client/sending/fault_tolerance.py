"""Latency fault tolerance: which brokers to avoid for a while because they were slow or failed (client spec 2.5).

A broker's last latency decides for how long. A failure counts as a latency of 30 s, which means ten minutes. This module uses no clock and no socket.
"""

import random
from dataclasses import dataclass
from typing import Final

LATENCY_MAX_MS: Final = (50, 100, 550, 1000, 2000, 3000, 15000)
NOT_AVAILABLE_MS: Final = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
ISOLATION_LATENCY_MS: Final = 30_000


def not_available_ms(latency_ms: int) -> int:
    """Returns for how long to avoid a broker with this latency."""
    found = [pause for limit, pause in zip(LATENCY_MAX_MS, NOT_AVAILABLE_MS, strict=True) if latency_ms >= limit]
    return found[-1] if found else 0


@dataclass(slots=True)
class _Fault:
    latency_ms: int
    available_at_ms: int


class FaultTolerance:
    """The last latency of each broker, by name. `now_ms` is from any monotonic clock."""

    def __init__(self) -> None:
        self._faults: dict[str, _Fault] = {}
        self._at = random.randrange(1000)

    def update(self, broker_name: str, latency_ms: int, now_ms: int, *, is_failure: bool) -> None:
        """Records the outcome of an attempt."""
        pause_ms = not_available_ms(ISOLATION_LATENCY_MS if is_failure else latency_ms)
        self._faults[broker_name] = _Fault(latency_ms, now_ms + pause_ms)

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        """Whether the broker need not be avoided."""
        fault = self._faults.get(broker_name)
        return fault is None or now_ms >= fault.available_at_ms

    def pick_at_least(self, now_ms: int) -> str | None:
        """Returns the broker to use when all are to be avoided: one of the better half, in turn; None if none is known."""
        ranked = sorted(
            self._faults,
            key=lambda name: (
                not self.is_available(name, now_ms),
                self._faults[name].latency_ms,
                self._faults[name].available_at_ms,
            ),
        )
        if not ranked:
            return None
        self._at += 1
        return ranked[self._at % max(1, len(ranked) // 2)]

    def forget(self, broker_name: str) -> None:
        """Removes a broker that no longer has queues."""
        self._faults.pop(broker_name, None)
