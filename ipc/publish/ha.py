"""Publishes the progress of slaves. For ha only."""

from ipc.cells import store_cell
from ipc.control_block import ControlBlock
from ipc.control_layout import PUSH2SLAVE_MAX_OFFSET, SLAVE_COUNT


class HaPublisher:
    """Stores `push2slave_max_offset`, `slave_count`."""

    __slots__ = ("_words",)

    def __init__(self, block: ControlBlock) -> None:
        self._words = block.words

    def push2slave_max_offset(self, physical_offset: int) -> None:
        """A slave has acknowledged everything below `physical_offset`."""
        store_cell(self._words, PUSH2SLAVE_MAX_OFFSET, physical_offset)

    def slave_count(self, count: int) -> None:
        """So many slaves are connected."""
        store_cell(self._words, SLAVE_COUNT, count)
