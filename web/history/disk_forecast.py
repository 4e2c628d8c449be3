"""The forecast of a broker's disk: does it last the weekend? Pure functions.

The log grows by what is written and shrinks by what reaches its retention time. With a steady rate of writes `w`, a log of `L` bytes whose
oldest message has the age `A`, and the retention time `R`:

    until R - A     nothing expires         it grows by w
    until R         what is stored expires  it grows by w - L / A, if the stored part was written steadily
    afterwards      what was written at w   it stays at w * R

Used space grows with the log, plus a share for queues and index. Other programs on the disk are assumed to stay as they are.

If used space has risen steeply in the last minutes, whatever the cause, the forecast continues this rise instead (`steep_rise`).
"""

from collections.abc import Sequence
from statistics import linear_regression
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

INDEX_SHARE: Final = 1.05
"""Bytes on disk for each byte of the log, with ConsumeQueues and IndexFiles."""

_LEAST_S: Final = 3_600.0
"""Of history, before a rate is computed from it."""
_LEAST_RISE_S: Final = 300.0
"""Of history, before a rise of used space is computed from it."""
_LASTING_S: Final = 180.0
"""How long a rise must last to be continued: a file that is copied once takes less."""
_LATEST_S: Final = 120.0
"""In the newest samples of this time, used space must still rise."""
_SMALL_PART: Final = 0.1
"""Of a rise: what counts as nothing."""
_STEEP_S: Final = 6 * 3_600.0
"""A rise is steep if the disk is full before, should it go on."""


class DiskFacts(Struct, frozen=True):
    """What the forecast is made of: bytes and seconds."""

    total_bytes: int
    free_bytes: int
    log_bytes: int
    oldest_age_s: float
    retention_s: float
    write_rate: float
    """Bytes of the log per second."""


class DiskForecast(Struct, frozen=True):
    """How used space develops: `points` are (seconds from now, used share), joined by straight lines; afterwards it stays.

    A share above 1 means that the log does not fit.
    """

    points: tuple[tuple[float, float], ...]
    history_s: float = 0.0
    """On how much history it rests."""
    is_steep: bool = False
    """Whether it continues a steep rise of the last minutes."""

    def raised_to(self, share: float) -> "DiskForecast":
        """The forecast if so much is used now: a forecast that began below is raised by the difference."""
        missing = share - self.points[0][1]
        return self if missing <= 0 else replace(self, points=tuple((at, use + missing) for at, use in self.points))

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


def steep_rise(times: Sequence[int], shares: Sequence[float | None], retention_s: float) -> DiskForecast | None:
    """The forecast that continues the rise of used space at these times; None if it is short, over or not steep, or if messages expire before the disk is full."""
    known = [(at, share) for at, share in zip(times, shares, strict=True) if share is not None]
    if not known or known[-1][0] - known[0][0] < _LEAST_RISE_S:
        return None
    (begin_s, _), (end_s, used) = known[0], known[-1]
    # All samples count: from the first and the last alone, the rate would change with each sample.
    rate = linear_regression(*zip(*known, strict=True)).slope
    if rate <= 0 or used >= 1 or not _goes_on(known) or (1 - used) / rate > min(_STEEP_S, retention_s):
        return None
    return DiskForecast(((0.0, used), ((1 - used) / rate, 1.0)), float(end_s - begin_s), is_steep=True)


def _goes_on(known: Sequence[tuple[int, float]]) -> bool:
    """Whether used space has risen for a while and still rises."""
    end_s, used = known[-1]
    shares = [share for _, share in known]
    small = (max(shares) - min(shares)) * _SMALL_PART
    begin_s = max(at for at, share in known if share <= min(shares) + small)
    latest = max((share for at, share in known if at <= end_s - _LATEST_S), default=used)
    return used > max(shares) - small and used > latest + small and end_s - begin_s >= _LASTING_S


def write_rate(times: Sequence[int], ends: Sequence[float | None]) -> float | None:
    """Bytes per second from the ends of the log at these times; None if the history is too short."""
    known = _known(times, ends)
    if missing_s(times, ends) > 0:
        return None
    return (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])


def missing_s(times: Sequence[int], ends: Sequence[float | None]) -> float:
    """How many more seconds of history `write_rate` needs."""
    return max(_LEAST_S - history_s(times, ends), 0.0)


def history_s(times: Sequence[int], ends: Sequence[float | None]) -> float:
    """How long the history of the present log is."""
    known = _known(times, ends)
    return float(known[-1][0] - known[0][0]) if known else 0.0


def _known(times: Sequence[int], ends: Sequence[float | None]) -> list[tuple[int, float]]:
    """What is known of the log: one that is smaller than before was replaced, and only what follows counts."""
    known = [(at, end) for at, end in zip(times, ends, strict=True) if end is not None]
    for index in range(len(known) - 1, 0, -1):
        if known[index][1] < known[index - 1][1]:
            return known[index:]
    return known
