"""Latency fault tolerance: which brokers to keep away from for a while, because they were slow or failed (client spec 2.5).

A broker's last latency decides for how long; a failure counts as a latency of 30 s, which is ten minutes. Nothing here knows a clock or a socket.
"""

import random
from dataclasses import dataclass
from typing import Final

LATENCY_MAX_MS: Final = (50, 100, 550, 1000, 2000, 3000, 15000)
NOT_AVAILABLE_MS: Final = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
ISOLATION_LATENCY_MS: Final = 30_000


def not_available_ms(latency_ms: int) -> int:
    """For how long a broker with this latency is kept away from."""
    found = [pause for limit, pause in zip(LATENCY_MAX_MS, NOT_AVAILABLE_MS, strict=True) if latency_ms >= limit]
    return found[-1] if found else 0


@dataclass(slots=True)
class _Fault:
    latency_ms: int
    available_at_ms: int


class FaultTolerance:
    """What is known of each broker, by name. `now_ms` is any clock that does not jump."""

    def __init__(self) -> None:
        self._faults: dict[str, _Fault] = {}
        self._at = random.randrange(1000)

    def update(self, broker_name: str, latency_ms: int, now_ms: int, *, is_failure: bool) -> None:
        """Notes how an attempt went."""
        pause_ms = not_available_ms(ISOLATION_LATENCY_MS if is_failure else latency_ms)
        self._faults[broker_name] = _Fault(latency_ms, now_ms + pause_ms)

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        """Whether nothing speaks against the broker."""
        fault = self._faults.get(broker_name)
        return fault is None or now_ms >= fault.available_at_ms

    def pick_at_least(self, now_ms: int) -> str | None:
        """The broker to use when nothing speaks for any: one of the better half, in turn; None if none is known."""
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
        """Drops what is known of a broker that has no queues any more."""
        self._faults.pop(broker_name, None)
