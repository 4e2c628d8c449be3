"""Durations: the distribution of durations over the last minute, and the longest since the start.

A duration is rounded to five significant bits, so a minute is a small table whatever the load: the count of durations that are rounded to
`bits << shift` is at `shift * 32 + bits`.
Called for every read, so this is a hot module (types in the `.pxd`).
Tools get the last complete minute, as in RocketMQ; before there is one, the current one.
"""

import time
from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

_MINUTE_NS: Final = 60 * 10**9
_KEPT = 5  # bits
_COUNTS = 64 << _KEPT  # for all of 63 bits
_MS: Final = 10**6
_LIMITS_MS: Final = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)
_RANGES: Final = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]", "[1~2s]", "[2~3s]",
    "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip


class Durations:
    """Durations of one kind of work. Used in the broker's event loop."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._minute_ends = clock_ns() + _MINUTE_NS
        self._counts = _zeros()
        self._last: memoryview | None = None
        self._longest_ns = 0

    def add(self, began_ns: int, times: int = 1) -> None:
        """Records work of `times` requests that began at this monotonic time and ends now."""
        self.add_until(self._clock_ns(), began_ns, times)

    def add_until(self, now_ns: int, began_ns: int, times: int) -> None:
        """The same where the time is known."""
        if now_ns >= self._minute_ends:
            self._turn(now_ns)
        took_ns = max(now_ns - began_ns, 0)
        if took_ns > self._longest_ns:  # noqa: PLR1730  (a call costs as much as all the rest, once a batch)
            self._longest_ns = took_ns
        shift = 0
        while took_ns >> shift >> _KEPT:
            shift += 1
        self._counts[(shift << _KEPT) + (took_ns >> shift)] += times

    @property
    def longest_ms(self) -> int:
        """The longest since the start, in whole ms."""
        return self._longest_ns // _MS

    def below_ms(self, share: float) -> float:
        """The percentile of the last minute in ms; 0 if there was no work."""
        counts = self._told()
        wanted, passed = sum(times for _, times in counts) * share, 0
        for took_ns, times in counts:
            passed += times
            if passed >= wanted:
                return took_ns / _MS
        return 0.0

    def distribution(self) -> str:
        """The distribution of the last minute in RocketMQ's ranges of whole ms."""
        numbers = [0] * len(_RANGES)
        for took_ns, times in self._told():
            numbers[bisect_left(_LIMITS_MS, took_ns // _MS)] += times
        return "".join(f"{name}:{number} " for name, number in zip(_RANGES, numbers, strict=True))

    def _told(self) -> list[tuple[int, int]]:
        """How often there were which durations, ascending."""
        now_ns = self._clock_ns()
        if now_ns >= self._minute_ends:
            self._turn(now_ns)
        counts = self._counts if self._last is None else self._last
        bits = (1 << _KEPT) - 1
        return [((at & bits) << (at >> _KEPT), times) for at, times in enumerate(counts) if times]

    def _turn(self, now_ns: int) -> None:
        """Begins a new minute. A minute without work is empty."""
        late_ns = now_ns - self._minute_ends
        self._last = self._counts if late_ns < _MINUTE_NS else _zeros()
        self._counts = _zeros()
        self._minute_ends += _MINUTE_NS + late_ns // _MINUTE_NS * _MINUTE_NS


def _zeros() -> memoryview:
    return memoryview(array("q", bytes(8 * _COUNTS)))
