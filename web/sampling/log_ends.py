"""LogEnds: where the CommitLog of each broker ended over the last hours, from samples: how fast a log grows, and when it reached an offset.

Offsets are exact, unlike those of the history. They are in memory only: after a start of the console they are unknown until two samples were taken.
"""

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from web.sampling.sample import Sample

MOST_POINTS: Final = 2_160  # limit: six hours of samples every ten seconds, 16 bytes each
_MOST_BROKERS: Final = 1_000  # limit: brokers whose points are kept


class _Points(Struct):
    """Times (ms) and ends, both ascending."""

    times: "array[int]" = field(default_factory=lambda: array("q"))
    ends: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, time_ms: int, end: int) -> None:
        if self.times and (time_ms <= self.times[-1] or end < self.ends[-1]):
            # The clock was set back, or the log was replaced: earlier points are those of another line.
            del self.times[:], self.ends[:]
        self.times.append(time_ms)
        self.ends.append(end)
        if len(self.times) > MOST_POINTS:
            del self.times[0], self.ends[0]


class LogEnds:
    """By `key` of the brokers (`BrokerSample.key`)."""

    def __init__(self) -> None:
        self._points: dict[str, _Points] = {}

    def follow(self, sample: Sample, _values: Mapping[str, float]) -> None:
        """Adds a sample. Brokers that are not registered any more are forgotten."""
        time_ms = int(sample.time_s * 1000)
        if sample.problem is None:
            registered = {broker.key for broker in sample.brokers}
            self._points = {key: points for key, points in self._points.items() if key in registered}
        for broker in sample.brokers:
            end = broker.number("commitLogMaxOffset")
            if end is not None and 0 <= end < 1 << 62 and (broker.key in self._points or self._has_room()):
                self._points.setdefault(broker.key, _Points()).add(time_ms, int(end))

    def bytes_per_second(self, key: str, now_ms: int, end: int) -> float | None:
        """How fast the log has grown since the last sample but one, 10 to 20 s ago, if it ends at `end` now; None if unknown."""
        points = self._points.get(key)
        if points is None or len(points.times) < 2 or now_ms <= points.times[-2] or end < points.ends[-2]:
            return None
        return (end - points.ends[-2]) * 1000 / (now_ms - points.times[-2])

    def reached_ms(self, key: str, offset: int) -> int | None:
        """When the log grew beyond `offset`, ms since 1970, to the resolution of samples; None if that was before the first sample.

        A log that had not reached it in the last sample grew beyond it at that time at the earliest.
        """
        points = self._points.get(key)
        if points is None:
            return None
        index = bisect_right(points.ends, offset)
        if index == 0:
            return None
        before, begin = points.ends[index - 1], points.times[index - 1]
        if index == len(points.ends):
            return begin
        share = (offset - before) / (points.ends[index] - before)
        return begin + int(share * (points.times[index] - begin))

    def still_since_ms(self, key: str, end: int) -> int | None:
        """Since when the log has ended at `end`, ms since 1970; None if it did not in the last sample."""
        points = self._points.get(key)
        if points is None or not points.ends or points.ends[-1] != end:
            return None
        index = len(points.ends) - 1
        while index and points.ends[index - 1] == end:
            index -= 1
        return points.times[index]

    def _has_room(self) -> bool:
        return len(self._points) < _MOST_BROKERS
