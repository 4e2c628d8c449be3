"""Traffic: samples of the broker's counters: rates over 10, 60 and 600 seconds, and counts at midnight.

RocketMQ's tools show these figures (admin spec 5). Counting is done elsewhere; here counts are only sampled. While a window is not complete,
the rate covers the time since the start; RocketMQ then returns nothing.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final

from msgspec import Struct

WINDOWS_S: Final = (10, 60, 600)
SAMPLES: Final = WINDOWS_S[-1] + 1
MESSAGES_IN: Final = "messages_in"
BYTES_IN: Final = "bytes_in"
PUTS_FAILED: Final = "puts_failed"
MESSAGES_OUT: Final = "messages_out"
BYTES_OUT: Final = "bytes_out"
MESSAGES_STORED: Final = "messages_stored"
BYTES_STORED: Final = "bytes_stored"
MESSAGES_READ: Final = "messages_read"
PULLS_FOUND: Final = "pulls_found"
PULLS_MISSED: Final = "pulls_missed"


class _Sample(Struct, frozen=True):
    time_ms: int
    counts: Mapping[str, int]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Traffic:
    """`counts()` are the broker's counters by the names above; missing ones are 0. Used in the broker's event loop."""

    def __init__(self, counts: Callable[[], Mapping[str, int]], clock_ms: Callable[[], int] = _now_ms) -> None:
        self._counts = counts
        self._clock_ms = clock_ms
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)
        self._day: date | None = None
        self._midnight: Mapping[str, int] = {}
        self._midnight_before: Mapping[str, int] = {}
        self.sample()

    async def keep(self) -> None:
        """Samples every second until it is cancelled."""
        while True:
            await asyncio.sleep(1)
            self.sample()

    def sample(self) -> None:
        """Checks once."""
        now_ms, counts = self._clock_ms(), dict(self._counts())
        today = date.fromtimestamp(now_ms / 1000)  # noqa: DTZ012  midnight is the local one
        if self._day is not None and today != self._day:
            self._midnight_before, self._midnight = self._midnight, counts
        self._day = today
        self._samples.append(_Sample(now_ms, counts))

    def total(self, name: str) -> int:
        """The count now."""
        return self._counts().get(name, 0)

    def at_midnights(self, name: str) -> tuple[int, int]:
        """The counts at the last two midnights; 0 for one before the start."""
        return self._midnight_before.get(name, 0), self._midnight.get(name, 0)

    def rates(self, *names: str) -> tuple[float, ...]:
        """The rate of the sum of these counts, for each window."""
        return tuple(self._rate(seconds, names) for seconds in WINDOWS_S)

    def _rate(self, seconds: int, names: tuple[str, ...]) -> float:
        last = self._samples[-1]
        first = self._samples[max(len(self._samples) - 1 - seconds, 0)]
        elapsed_ms = last.time_ms - first.time_ms
        if elapsed_ms <= 0:
            return 0.0
        return sum(last.counts.get(name, 0) - first.counts.get(name, 0) for name in names) * 1000 / elapsed_ms
