"""StatsItem: a growing value, the number of its additions, and both over the last minute, hour and day (admin spec 6.2).

    window    looked at     kept    spans
    minute    every 10 s       7     60 s
    hour      every 10 min     7     60 min
    day       every hour      25     24 h

Each window keeps samples of the item; its figures are the newest sample less the oldest. The first sample is preceded by one of
zero, an interval earlier, so that earlier counts belong to an interval.
"""

from collections import deque
from typing import Final

from msgspec import Struct


class Window(Struct, frozen=True):
    """A window: the seconds between samples, and the number of samples kept."""

    tick_s: int
    kept: int


MINUTE: Final = Window(10, 7)
HOUR: Final = Window(600, 7)
DAY: Final = Window(3600, 25)


class Figures(Struct, frozen=True):
    """The figures of a window: sum, number of additions, rate per second, average."""

    sum: int = 0
    times: int = 0
    tps: float = 0.0
    average: float = 0.0


_NOTHING: Final = Figures()

_Look = tuple[int, int, int]


class StatsItem:
    """`value` grew in `times` additions."""

    __slots__ = ("_looks", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self._looks: dict[Window, deque[_Look]] = {}

    def add(self, value: int, times: int = 1) -> None:
        """Adds to the value."""
        self.value += value
        self.times += times

    def look(self, window: Window, now_ms: int) -> None:
        """Takes a sample for a window."""
        looks = self._looks.get(window)
        if looks is None:
            looks = self._looks[window] = deque(((now_ms - window.tick_s * 1000, 0, 0),), window.kept)
        looks.append((now_ms, self.value, self.times))

    def figures(self, window: Window) -> Figures:
        """The figures of the window; zero before the first sample."""
        looks = self._looks.get(window)
        if looks is None:
            return _NOTHING
        (first_ms, first_value, first_times), (last_ms, last_value, last_times) = looks[0], looks[-1]
        total, times, elapsed_ms = last_value - first_value, last_times - first_times, last_ms - first_ms
        return Figures(
            total, times, total * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0, total / times if times else 0.0
        )
