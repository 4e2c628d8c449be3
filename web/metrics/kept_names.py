"""KeptNames: which topics and groups have series of their own. The number is bounded; the others are summed under `_other`."""

from collections.abc import Collection, Iterable
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=tuple[str, ...])

OTHER: Final = "_other"
MOST: Final = 5_000  # limit: series per name of a metric; RocketMQ's exporter ran out of memory at 225,000


class KeptNames(Generic[T]):
    """A name that has a series keeps it as long as it exists, so that counters do not jump; deleted ones make room."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: set[T] = set()

    def choose(self, names: Iterable[T]) -> Collection[T]:
        """The names of these that have series."""
        existing = set(names)
        self._kept &= existing
        if len(self._kept) < self._most:
            self._kept.update(sorted(existing - self._kept)[: self._most - len(self._kept)])
        return self._kept
