"""Publishes the progress of slaves. For ha only."""

import cython

from ipc.control_block import ControlBlock
from ipc.control_layout import PUSH2SLAVE_MAX_OFFSET, SLAVE_COUNT

if not cython.compiled:
    from ipc.cells import keep_words, store_cell, writable_cells_of

_PUSH2SLAVE_MAX_OFFSET = PUSH2SLAVE_MAX_OFFSET
_SLAVE_COUNT = SLAVE_COUNT


class HaPublisher:
    """Stores `push2slave_max_offset`, `slave_count`."""

    __slots__ = ("_cells", "_words")

    def __init__(self, block: ControlBlock) -> None:
        self._words = keep_words(block.words)
        self._cells = writable_cells_of(self._words)

    def push2slave_max_offset(self, physical_offset: int) -> None:
        """A slave has acknowledged everything below `physical_offset`."""
        store_cell(self._cells, _PUSH2SLAVE_MAX_OFFSET, physical_offset)

    def slave_count(self, count: int) -> None:
        """So many slaves are connected."""
        store_cell(self._cells, _SLAVE_COUNT, count)
