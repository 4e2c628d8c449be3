"""The queue table: the bounds of each queue, a row for each (topic, queue id). Filled by recover, then written by dispatch, read by any process.

    segment   word 0…7    header (segment_header); word 3 is the capacity in rows
              word 8      row count: rows ever in use; published after the new row is there
              word 16     changes: incremented after a row was added or freed, and at every start of a writer
              word 17     recovered: 1 from the end of recovery until dispatch has taken over the rows, which until then are exactly what is on disk
              word 24…    rows

    row       word 0      generation: odd while the row is written
              word 1      min_queue_offset
              word 2      max_queue_offset (of the next entry)
              word 3      max_physical_offset: end of the last record dispatched to this queue, -1 none
              word 4      queue_id
              word 5      in_use
              word 6      length of the topic's name in bytes
              word 7      spare
              word 8…39   topic, UTF-8

A row is a seqlock: make the generation odd, store, make it even. A reader that finds it odd or changed reads again.
Compiled code (`ipc.queue_rows`) must keep the order *and* store through `volatile` or atomics: of two plain stores to the generation a C compiler
may drop the first.

A killed writer leaves an odd row. Each of its words is complete, and is the current or the previous value,
so readers that have retried long enough use them (`seqlock`); the next writer repairs the row. A row that was
being added is not in use yet, and is free again.
"""

from collections.abc import Iterator

from ipc.cells import store_bytes, store_cell
from ipc.errors import QueueTableFull
from ipc.posix import Segment
from ipc.queue_rows import (
    CHANGES,
    FIRST_ROW_WORD,
    GENERATION,
    MAX_PHYSICAL_OFFSET,
    MAX_QUEUE_OFFSET,
    MIN_QUEUE_OFFSET,
    ROW_WORDS,
    QueueRows,
    RowReader,
)
from ipc.segment_header import magic_of, store_header
from ipc.seqlock import Seqlock

MAGIC = magic_of(b"HRqueues")

CAPACITY = 3
ROW_COUNT = 8
RECOVERED = 17

QUEUE_ID = 4
IN_USE = 5
TOPIC_LENGTH = 6
TOPIC = 8
TOPIC_BYTES = 256

DEFAULT_CAPACITY = 65_536

QueueRow = tuple[int, bytes, int, int, int, int]
"""(row, topic, queue_id, min_queue_offset, max_queue_offset, max_physical_offset)"""


def size_bytes(capacity: int) -> int:
    """The size of a segment for so many rows."""
    return (FIRST_ROW_WORD + capacity * ROW_WORDS) * 8


def format_queue_table(segment: Segment, store_hash: str, capacity: int) -> None:
    """Format a zeroed segment as an empty table."""
    if segment.size_bytes < size_bytes(capacity):
        raise ValueError(f"a queue table of {capacity} rows does not fit into {segment.size_bytes} bytes")
    store_cell(segment.words, CAPACITY, capacity)
    store_header(segment, MAGIC, store_hash)


def row_word(row: int) -> int:
    """The word at which row number `row` begins."""
    return FIRST_ROW_WORD + row * ROW_WORDS


class QueueTableWriter:
    """Adds, frees and updates rows. For recover, then for dispatch, and only one at a time."""

    def __init__(self, segment: Segment) -> None:
        self.words = segment.words
        self._view = segment.view
        self._capacity: int = self.words[CAPACITY]
        self.row_bounds = QueueRows(self.words, self._capacity)
        """What `update` stores with."""
        self._rows: dict[tuple[bytes, int], int] = {}
        self._free: list[int] = []
        self._take_over()

    def _take_over(self) -> None:
        """Continue with the table of a predecessor, which may have been killed in the middle of a row."""
        words = self.words
        for row in range(words[ROW_COUNT]):
            word = row_word(row)
            if words[word + GENERATION] & 1:
                store_cell(words, word + GENERATION, words[word + GENERATION] + 1)
            if words[word + IN_USE]:
                self._rows[_topic(self._view, words, word), words[word + QUEUE_ID]] = row
            else:
                self._free.append(row)
        if words[ROW_COUNT] < self._capacity:
            beyond = row_word(words[ROW_COUNT])  # the row that was being added
            store_cell(words, beyond + IN_USE, 0)
            store_cell(words, beyond + GENERATION, words[beyond + GENERATION] + 1 & ~1)
        self._raise_changes()  # the predecessor may have died between a row and its announcement

    @property
    def is_recovered(self) -> bool:
        """Whether the rows are as recovery left them, and so agree with the files."""
        return bool(self.words[RECOVERED])

    @is_recovered.setter
    def is_recovered(self, is_recovered: bool) -> None:
        store_cell(self.words, RECOVERED, int(is_recovered))

    def find(self, topic: bytes, queue_id: int) -> int:
        """The row of this queue, -1 if it has none."""
        return self._rows.get((topic, queue_id), -1)

    def rows(self) -> dict[tuple[bytes, int], int]:
        """A copy of all (topic, queue id) with their rows."""
        return dict(self._rows)

    def add(self, topic: bytes, queue_id: int) -> int:
        """Add a row for a new queue, with offsets 0, 0, -1; returns the existing row of a known queue. Raises QueueTableFull."""
        row = self.find(topic, queue_id)
        if row >= 0:
            return row
        if len(topic) > TOPIC_BYTES:
            raise ValueError(f"a topic of {len(topic)} bytes does not fit into the queue table")
        words = self.words
        row_count = words[ROW_COUNT]
        if self._free:
            row = self._free.pop()
        elif row_count < self._capacity:
            row = row_count
        else:
            raise QueueTableFull(
                f"the queue table is full; cannot add {topic.decode(errors='replace')}, queue {queue_id}: "
                f"all {self._capacity} rows are in use; raise queueTableCapacity"
            )
        word = row_word(row)
        store_cell(words, word + GENERATION, words[word + GENERATION] + 1)
        store_cell(words, word + MIN_QUEUE_OFFSET, 0)
        store_cell(words, word + MAX_QUEUE_OFFSET, 0)
        store_cell(words, word + MAX_PHYSICAL_OFFSET, -1)
        store_cell(words, word + QUEUE_ID, queue_id)
        store_cell(words, word + TOPIC_LENGTH, len(topic))
        store_bytes(self._view, (word + TOPIC) * 8, topic)
        store_cell(words, word + IN_USE, 1)  # order: after the name, so that a row in use always has one
        store_cell(words, word + GENERATION, words[word + GENERATION] + 1)
        if row == row_count:
            store_cell(words, ROW_COUNT, row_count + 1)  # order: after the row
        self._rows[topic, queue_id] = row
        self._raise_changes()
        return row

    def free(self, row: int) -> None:
        """Free the row of a deleted queue. Freeing a free row does nothing."""
        words = self.words
        word = row_word(row)
        if row >= words[ROW_COUNT] or not words[word + IN_USE]:
            return
        key = (_topic(self._view, words, word), words[word + QUEUE_ID])
        store_cell(words, word + GENERATION, words[word + GENERATION] + 1)
        store_cell(words, word + IN_USE, 0)
        store_cell(words, word + GENERATION, words[word + GENERATION] + 1)
        self._raise_changes()
        del self._rows[key]
        self._free.append(row)

    def update(self, row: int, min_queue_offset: int, max_queue_offset: int, max_physical_offset: int) -> None:
        """Publish a queue's bounds. Its entries up to `max_queue_offset` must be in the ConsumeQueue."""
        self.row_bounds.update(row, min_queue_offset, max_queue_offset, max_physical_offset)

    def _raise_changes(self) -> None:
        store_cell(self.words, CHANGES, self.words[CHANGES] + 1)


class QueueTable:
    """The read side. A process may have several; each has its own dictionary."""

    def __init__(self, segment: Segment) -> None:
        self.words = segment.words
        self._view = segment.view
        self.row_reader = RowReader(segment.words, segment.words[CAPACITY])
        """What `bounds` loads with, unless it has to wait."""
        self._seqlock = Seqlock(segment.words)
        self._rows: dict[tuple[bytes, int], int] = {}
        self._seen_changes = -1
        self._seen_row_count = 0

    @property
    def capacity(self) -> int:
        """The maximum number of rows."""
        capacity: int = self.words[CAPACITY]
        return capacity

    @property
    def changes(self) -> int:
        """Incremented when a row is added or freed."""
        count: int = self.words[CHANGES]
        return count

    def find(self, topic: bytes, queue_id: int) -> int:
        """The row of this queue, -1 if it has none. A row is valid until `changes` changes."""
        if self.words[CHANGES] != self._seen_changes:
            self._refresh()
        return self._rows.get((topic, queue_id), -1)

    def bounds(self, row: int) -> tuple[int, int, int]:
        """A consistent (min_queue_offset, max_queue_offset, max_physical_offset)."""
        reader = self.row_reader
        if reader.load(row):
            return reader.min_queue_offset, reader.max_queue_offset, reader.max_physical_offset
        words, word = self.words, row_word(row)
        return self._seqlock.read(
            word,
            lambda: (words[word + MIN_QUEUE_OFFSET], words[word + MAX_QUEUE_OFFSET], words[word + MAX_PHYSICAL_OFFSET]),
        )

    def rows(self) -> Iterator[QueueRow]:
        """All rows in use, in order of their number."""
        return self._read_rows(0, self.words[ROW_COUNT])

    def _refresh(self) -> None:
        changes = self.words[CHANGES]  # order: before the rows, so that later changes are seen next time
        row_count = self.words[ROW_COUNT]
        first = 0
        if changes - self._seen_changes == row_count - self._seen_row_count:
            first = self._seen_row_count  # every change was a new row at the end, as in a table without deletions
        else:
            self._rows.clear()
        for row, topic, queue_id, *_ in self._read_rows(first, row_count):
            self._rows[topic, queue_id] = row
        self._seen_changes = changes
        self._seen_row_count = row_count

    def _read_rows(self, first: int, end: int) -> Iterator[QueueRow]:
        for row in range(first, end):
            found = self._read_row(row)
            if found is not None:
                yield found

    def _read_row(self, row: int) -> QueueRow | None:
        words = self.words
        word = row_word(row)

        def read() -> QueueRow | None:
            if not words[word + IN_USE]:
                return None
            return (
                row,
                _topic(self._view, words, word),
                words[word + QUEUE_ID],
                words[word + MIN_QUEUE_OFFSET],
                words[word + MAX_QUEUE_OFFSET],
                words[word + MAX_PHYSICAL_OFFSET],
            )

        return self._seqlock.read(word + GENERATION, read)


def _topic(view: memoryview, words: memoryview, word: int) -> bytes:
    start = (word + TOPIC) * 8
    return bytes(view[start : start + words[word + TOPIC_LENGTH]])
