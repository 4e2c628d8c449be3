"""Wheel: entries due soon, in memory, with a bucket for each second; only the next second is sorted."""

import heapq
from bisect import insort

from broker.timers.entry import ENTRY, ENTRY_SIZE, due_of


class Wheel:
    """Entries in the order of their due times. Takes 20 bytes per entry."""

    def __init__(self) -> None:
        self._seconds: dict[int, bytearray] = {}
        self._order: list[int] = []
        self._current: list[bytes] = []
        self._at = 0
        self._second = -1

    def __len__(self) -> int:
        """The number of entries, including duplicates."""
        return len(self._current) - self._at + sum(map(len, self._seconds.values())) // ENTRY_SIZE

    def __bool__(self) -> bool:
        return self._at < len(self._current) or bool(self._order)

    def add(self, entry: bytes) -> None:
        """Adds an entry."""
        second = due_of(entry) // 1000
        if self._at < len(self._current) and second <= self._second:
            insort(self._current, entry, self._at)
            return
        bucket = self._seconds.get(second)
        if bucket is None:
            bucket = self._seconds[second] = bytearray()
            heapq.heappush(self._order, second)
        bucket += entry

    def add_all(self, data: bytes) -> None:
        """Adds the entries of a file; those of size 0 were never written."""
        at = 0
        for due_ms, _, size in ENTRY.iter_unpack(data):
            if size and due_ms >= 0:
                self.add(data[at : at + ENTRY_SIZE])
            at += ENTRY_SIZE

    def head(self) -> bytes | None:
        """The entry that is due next; None if there is none."""
        if self._at >= len(self._current):
            if not self._order:
                return None
            self._second = heapq.heappop(self._order)
            data = bytes(self._seconds.pop(self._second))
            self._current = sorted({data[at : at + ENTRY_SIZE] for at in range(0, len(data), ENTRY_SIZE)})
            self._at = 0
        return self._current[self._at]

    def take(self) -> bytes | None:
        """Takes the entry that is due next."""
        entry = self.head()
        if entry is not None:
            self._at += 1
            # The same entry may have been added twice during its second.
            while self._at < len(self._current) and self._current[self._at] == entry:
                self._at += 1
        return entry
