"""Rates of counters that only grow: samples once a second, differences over the last several seconds.

A pure function of numbers. Counters continue when a role restarts, so differences are never negative.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

WINDOW_MS: Final = 5_000  # limit: long enough to be steady, short enough to follow a load test
SAMPLE_EVERY_MS: Final = 1_000


class RateWindow:
    """The samples of the last seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, dict[str, int]]] = deque()

    def is_due(self, now_ms: int) -> bool:
        """Whether the next sample is due."""
        return not self._samples or now_ms - self._samples[-1][0] >= SAMPLE_EVERY_MS

    def add(self, now_ms: int, counters: Mapping[str, int]) -> None:
        """Take a sample, and drop those older than the window."""
        self._samples.append((now_ms, dict(counters)))
        while len(self._samples) > 2 and now_ms - self._samples[1][0] >= WINDOW_MS:
            self._samples.popleft()

    def per_second(self, now_ms: int, counters: Mapping[str, int]) -> dict[str, float]:
        """The rate of each counter between the oldest sample and now; empty when there is no older sample."""
        if not self._samples or now_ms <= self._samples[0][0]:
            return {}
        then_ms, then = self._samples[0]
        seconds = (now_ms - then_ms) / 1000
        return {name: round((value - then[name]) / seconds, 1) for name, value in counters.items() if name in then}
