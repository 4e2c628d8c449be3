# cython: wraparound=False, cdivision=True
"""QueueRows and RowReader: store and load the bounds of queues in rows of the queue table, whose format is in `ipc.queue_table`.

Dispatch stores a row for each queue that a batch has changed: with thousands of queues, nearly one for each message; the broker loads one for each pull.
So this is a hot module (types in the `.pxd`, where a load or store is one machine instruction that the C compiler neither drops nor moves).
"""

from typing import Final

import cython

CHANGES: Final = 16
FIRST_ROW_WORD: Final = 24
ROW_WORDS: Final = 40
GENERATION: Final = 0
MIN_QUEUE_OFFSET: Final = 1
MAX_QUEUE_OFFSET: Final = 2
MAX_PHYSICAL_OFFSET: Final = 3
"""CHANGES is a word of the table, GENERATION and those after it are words of a row."""

_CHANGES = CHANGES
_FIRST_ROW_WORD = FIRST_ROW_WORD
_ROW_WORDS = ROW_WORDS
_GENERATION = GENERATION
_MIN_QUEUE_OFFSET = MIN_QUEUE_OFFSET
_MAX_QUEUE_OFFSET = MAX_QUEUE_OFFSET
_MAX_PHYSICAL_OFFSET = MAX_PHYSICAL_OFFSET

if not cython.compiled:
    from ipc.cells import cells_of, keep_words, load_cell, store_cell


class QueueRows:
    """The rows of a table of `capacity` rows. For the table's writer only."""

    def __init__(self, words: memoryview, capacity: int) -> None:
        self._words = keep_words(words)
        self._cells = cells_of(words)
        self._capacity = capacity

    def update(self, row: int, min_queue_offset: int, max_queue_offset: int, max_physical_offset: int) -> None:
        """Publish a queue's bounds. Its entries up to `max_queue_offset` must be in the ConsumeQueue. Raises IndexError."""
        if not 0 <= row < self._capacity:
            raise IndexError(f"the queue table has no row {row}")
        cells = self._cells
        word = _FIRST_ROW_WORD + row * _ROW_WORDS
        generation = cells[word + _GENERATION]
        store_cell(cells, word + _GENERATION, generation + 1)
        store_cell(cells, word + _MIN_QUEUE_OFFSET, min_queue_offset)
        store_cell(cells, word + _MAX_QUEUE_OFFSET, max_queue_offset)
        store_cell(cells, word + _MAX_PHYSICAL_OFFSET, max_physical_offset)
        store_cell(cells, word + _GENERATION, generation + 2)


class RowReader:
    """Loads one row at a time, without waiting for its writer. For any reader."""

    def __init__(self, words: memoryview, capacity: int) -> None:
        self._words = keep_words(words)
        self._cells = cells_of(words)
        self._capacity = capacity
        self.min_queue_offset = self.max_queue_offset = self.max_physical_offset = self.changes = 0
        """The row that was loaded last; and after it, the table's `changes`: if they are what they were when the row was found, it was still that queue's."""

    def load(self, row: int) -> bool:
        """Whether the row was loaded; it is not while it is written, and after its writer was killed. Raises IndexError."""
        if not 0 <= row < self._capacity:
            raise IndexError(f"the queue table has no row {row}")
        cells = self._cells
        word = _FIRST_ROW_WORD + row * _ROW_WORDS
        generation = load_cell(cells, word + _GENERATION)
        self.min_queue_offset = load_cell(cells, word + _MIN_QUEUE_OFFSET)
        self.max_queue_offset = load_cell(cells, word + _MAX_QUEUE_OFFSET)
        self.max_physical_offset = load_cell(cells, word + _MAX_PHYSICAL_OFFSET)
        if generation & 1 or load_cell(cells, word + _GENERATION) != generation:
            return False
        # order: after the row, because a row is given to another queue before `changes` says so
        self.changes = load_cell(cells, _CHANGES)
        return True

    def has(self, row: int, queue_offset: int) -> bool:
        """Whether the row was loaded, and the queue has this offset."""
        return self.load(row) and self.min_queue_offset <= queue_offset < self.max_queue_offset
