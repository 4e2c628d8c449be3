"""The ring of changed rows: which queues dispatch has moved. Dispatch writes, the broker reads.

    word 0…7    header (segment_header); word 3 is the capacity in words
    word 8      count: rows ever added, published last
    word 16     announced: raised before the words are stored; what lies `capacity` below it may be overwritten
    word 24…    the ring: row number i at word 24 + i % capacity

A reader remembers the count it has come to. It copies what is new, then looks at `announced`: when that is more than a ring
beyond, the writer may have been in what was copied, and the reader has been lapped. Then it must look at all rows. A new
writer begins by lapping everyone, since its predecessor may have been killed before it told what it had moved. A row in
the ring means that its bounds are already in the queue table; the same row may stand there often. dispatch's compiled loop
may write the ring itself, in this order: announced, words, count (`volatile`, see queue_table).
"""

from collections.abc import Sequence

from ipc.cells import store_cell
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
    """Make an empty ring of a zeroed segment."""
    store_cell(segment.words, CAPACITY, capacity)
    store_header(segment, MAGIC, store_hash)


class ChangedRowsWriter:
    """Adds rows to the ring. For dispatch only."""

    def __init__(self, segment: Segment) -> None:
        self.words = segment.words
        self._capacity: int = self.words[CAPACITY]
        # A predecessor may have been killed after it moved rows and before it said so: lap every reader once.
        count = self.words[COUNT] + self._capacity + 1
        store_cell(self.words, ANNOUNCED, count)
        store_cell(self.words, COUNT, count)

    def add(self, rows: Sequence[int]) -> None:
        """These rows have moved; their bounds are in the queue table. Once a batch, each row once, then ring the broker."""
        words = self.words
        capacity = self._capacity
        count = words[COUNT]
        store_cell(words, ANNOUNCED, count + len(rows))  # order: before the words, or a reader takes new for old
        for place, row in enumerate(rows, count):
            store_cell(words, FIRST_WORD + place % capacity, row)
        store_cell(words, COUNT, count + len(rows))  # order: after the words


class ChangedRowsReader:
    """Reads the ring from the moment it is made. Each reader has its own place; the writer knows of none."""

    def __init__(self, segment: Segment) -> None:
        self._words = segment.words
        self._capacity: int = self._words[CAPACITY]
        self._seen: int = self._words[COUNT]

    def take(self) -> list[int] | None:
        """The rows added since the last call, oldest first. None: lapped, look at all rows."""
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
