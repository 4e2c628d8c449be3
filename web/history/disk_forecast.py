"""The forecast of a broker's disk: does it last the weekend? Pure functions.

The log grows by what is written and shrinks by what reaches its retention time. With a steady rate of writes `w`, a log of `L` bytes whose
oldest message has the age `A`, and the retention time `R`:

    until R - A     nothing expires         it grows by w
    until R         what is stored expires  it grows by w - L / A, if the stored part was written steadily
    afterwards      what was written at w   it stays at w * R

Used space grows with the log, plus a share for queues and index. Other programs on the disk are assumed to stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

INDEX_SHARE: Final = 1.05
"""Bytes on disk for each byte of the log, with ConsumeQueues and IndexFiles."""

_LEAST_S: Final = 600.0
"""Of history, before a rate is computed from it."""


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """What the forecast is made of: bytes and seconds."""

    total_bytes: int
    free_bytes: int
    log_bytes: int
    oldest_age_s: float
    retention_s: float
    write_rate: float
    """Bytes of the log per second."""


@dataclass(frozen=True, slots=True)
class DiskForecast:
    """How used space develops: `points` are (seconds from now, used share), joined by straight lines; afterwards it stays.

    A share above 1 means that the log does not fit.
    """

    points: tuple[tuple[float, float], ...]

    def reaches(self, ratio: float) -> float | None:
        """In how many seconds the used share reaches `ratio`; 0 if it has, None if it never does."""
        (before_s, before), *later = self.points
        if before >= ratio:
            return 0.0
        for at_s, share in later:
            if share >= ratio:
                return before_s + (at_s - before_s) * (ratio - before) / (share - before)
            before_s, before = at_s, share
        return None

    def at(self, seconds: float) -> float:
        """The used share in so many seconds."""
        (before_s, before), *later = self.points
        for at_s, share in later:
            if seconds <= at_s:
                return before + (share - before) * (seconds - before_s) / (at_s - before_s)
            before_s, before = at_s, share
        return before

    def lasts(self, seconds: float, ratio: float) -> bool:
        """Whether the used share stays below `ratio` for so long."""
        reached_s = self.reaches(ratio)
        return reached_s is None or reached_s > seconds

    @property
    def peak(self) -> float:
        """The highest used share."""
        return max(share for _, share in self.points)


def forecast(facts: DiskFacts) -> DiskForecast | None:
    """The forecast, for a steady rate of writes; None without a size of the disk."""
    if facts.total_bytes <= 0:
        return None
    used = facts.total_bytes - facts.free_bytes
    age_s = min(max(facts.oldest_age_s, 0.0), facts.retention_s)
    rate, log = max(facts.write_rate, 0.0), float(facts.log_bytes)
    begin_s, end_s = facts.retention_s - age_s, max(facts.retention_s, 1.0)
    sizes = [(0.0, log), (begin_s, log + rate * begin_s), (end_s, rate * facts.retention_s)]
    points: list[tuple[float, float]] = []
    for at_s, size in sizes:
        share = (used + INDEX_SHARE * (size - log)) / facts.total_bytes
        if not points or at_s > points[-1][0]:
            points.append((at_s, max(share, 0.0)))
    return DiskForecast(tuple(points))


def write_rate(times: Sequence[int], ends: Sequence[float | None]) -> float | None:
    """Bytes per second from the ends of the log at these times; None if the history is too short."""
    known = _known(times, ends)
    if missing_s(times, ends) > 0:
        return None
    return (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])


def missing_s(times: Sequence[int], ends: Sequence[float | None]) -> float:
    """How many more seconds of history `write_rate` needs."""
    known = _known(times, ends)
    return max(_LEAST_S - (known[-1][0] - known[0][0]), 0.0) if known else _LEAST_S


def _known(times: Sequence[int], ends: Sequence[float | None]) -> list[tuple[int, float]]:
    """What is known of the log: one that is smaller than before was replaced, and only what follows counts."""
    known = [(at, end) for at, end in zip(times, ends, strict=True) if end is not None]
    for index in range(len(known) - 1, 0, -1):
        if known[index][1] < known[index - 1][1]:
            return known[index:]
    return known
