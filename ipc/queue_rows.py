# cython: wraparound=False, cdivision=True
"""QueueRows: stores the bounds of queues in rows of the queue table, whose format is in `ipc.queue_table`.

Dispatch stores a row for each queue that a batch has changed: with thousands of queues, nearly one for each message. So this is a hot module (types in
the `.pxd`, where a store is one machine store that the C compiler neither drops nor moves).
"""

from typing import Final

import cython

FIRST_ROW_WORD: Final = 24
ROW_WORDS: Final = 40
GENERATION: Final = 0
MIN_QUEUE_OFFSET: Final = 1
MAX_QUEUE_OFFSET: Final = 2
MAX_PHYSICAL_OFFSET: Final = 3
"""Words of a row."""

_FIRST_ROW_WORD = FIRST_ROW_WORD
_ROW_WORDS = ROW_WORDS
_GENERATION = GENERATION
_MIN_QUEUE_OFFSET = MIN_QUEUE_OFFSET
_MAX_QUEUE_OFFSET = MAX_QUEUE_OFFSET
_MAX_PHYSICAL_OFFSET = MAX_PHYSICAL_OFFSET

if not cython.compiled:
    from ipc.cells import store_cell

    def cells_of(words: memoryview) -> memoryview:
        """Where compiled code finds the words."""
        return words


class QueueRows:
    """The rows of a table of `capacity` rows. For the table's writer only."""

    def __init__(self, words: memoryview, capacity: int) -> None:
        self._words = words
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
