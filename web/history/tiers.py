"""The resolutions of the history, and how finer points become coarser ones. Pure functions.

step      kept         points
10 s      1 hour          360
1 min     1 day         1,440
10 min    1 week        1,008
1 hour    30 days         720
"""

import math
from array import array
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

GAP: Final = math.nan


class Tier(Struct, frozen=True):
    """Points every `step_s` seconds, of which the newest `count` are kept."""

    step_s: int
    count: int

    @property
    def span_s(self) -> int:
        """How far back it reaches."""
        return self.step_s * self.count

    def bucket(self, at_s: float) -> int:
        """The time of the point to which a time belongs."""
        return int(at_s) // self.step_s * self.step_s


TIERS: Final = (Tier(10, 360), Tier(60, 1_440), Tier(600, 1_008), Tier(3_600, 720))


def tier_for(begin_s: float, now_s: float) -> int:
    """The index of the finest tier that reaches back to `begin_s`; the coarsest if none does."""
    for index, tier in enumerate(TIERS):
        if begin_s >= now_s - tier.span_s:
            return index
    return len(TIERS) - 1


def mean(rows: Sequence["array[float]"]) -> "array[float]":
    """The mean of each place; gaps are left out, and a place with gaps only is a gap. Rows may differ in length."""
    sums: list[float] = [0.0] * max(map(len, rows), default=0)
    counts = [0] * len(sums)
    for row in rows:
        for place, value in enumerate(row):
            if value == value:  # noqa: PLR0124  false for a gap, and faster than isnan
                sums[place] += value
                counts[place] += 1
    return array("f", (total / count if count else GAP for total, count in zip(sums, counts, strict=True)))
