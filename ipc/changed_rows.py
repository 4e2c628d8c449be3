"""The ring of changed rows: the queues that dispatch has changed. Written by dispatch, read by the broker.

    word 0…7    header (segment_header); word 3 is the capacity in words
    word 8      count: rows ever added, published last
    word 16     announced: raised before the words are stored; rows `capacity` below it may be overwritten
    word 24…    the ring: row number i at word 24 + i % capacity

A reader stores the count that it has reached. It copies the new rows, then loads `announced`: if that is more than a ring
ahead, the writer may have overwritten the copied words, and the reader has been lapped. Then it must read all rows. A new
writer begins by lapping all readers, because its predecessor may have been killed before it announced a changed row. A row in
the ring means that its bounds are already in the queue table; the same row may occur repeatedly.
"""

from array import array
from collections.abc import Sequence

from ipc.cells import store_cell, store_cells
from ipc.posix import Segment
from ipc.segment_header import magic_of, store_header

MAGIC = magic_of(b"HRchange")

CAPACITY = 3
COUNT = 8
ANNOUNCED = 16
FIRST_WORD = 24

RING_WORDS = 65_536  # limit: as many as the queue table has rows, so one round of all queues does not lap


def size_bytes(capacity: int = RING_WORDS) -> int:
    """The size of a segment for a ring of so many words."""
    return (FIRST_WORD + capacity) * 8


def format_changed_rows(segment: Segment, store_hash: str, capacity: int = RING_WORDS) -> None:
    """Format a zeroed segment as an empty ring."""
    store_cell(segment.words, CAPACITY, capacity)
    store_header(segment, MAGIC, store_hash)


class ChangedRowsWriter:
    """Adds rows to the ring. For dispatch only."""

    def __init__(self, segment: Segment) -> None:
        self.words = segment.words
        self._capacity: int = self.words[CAPACITY]
        # A predecessor may have been killed after it changed rows and before it announced them: lap every reader once.
        count = self.words[COUNT] + self._capacity + 1
        store_cell(self.words, ANNOUNCED, count)
        store_cell(self.words, COUNT, count)

    def add(self, rows: Sequence[int]) -> None:
        """Announce changed rows, whose bounds are in the queue table. Call once per batch, each row once, then ring the broker."""
        words = self.words
        capacity = self._capacity
        count = words[COUNT]
        store_cell(
            words, ANNOUNCED, count + len(rows)
        )  # order: before the words, otherwise a reader takes new words for old ones
        cells, place = memoryview(array("q", rows)), count % capacity
        while cells:
            store_cells(words, FIRST_WORD + place, cells[: capacity - place])
            cells, place = cells[capacity - place :], 0
        store_cell(words, COUNT, count + len(rows))  # order: after the words


class ChangedRowsReader:
    """Reads the ring from its creation on. Each reader has its own position, unknown to the writer."""

    def __init__(self, segment: Segment) -> None:
        self._words = segment.words
        self._capacity: int = self._words[CAPACITY]
        self._seen: int = self._words[COUNT]

    def take(self) -> list[int] | None:
        """The rows added since the last call, oldest first. None: lapped, read all rows."""
        words = self._words
        seen = self._seen
        count = words[COUNT]
        if count == seen:
            return []
        self._seen = count
        if count - seen > self._capacity:
            return None
        first = FIRST_WORD + seen % self._capacity
        length = count - seen
        until_end = min(length, FIRST_WORD + self._capacity - first)
        rows: list[int] = words[first : first + until_end].tolist()
        rows += words[FIRST_WORD : FIRST_WORD + length - until_end].tolist()
        if words[ANNOUNCED] - seen > self._capacity:  # order: after the copy
            return None
        return rows
