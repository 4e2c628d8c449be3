"""Publishes the end of the CommitLog. For the log writer only: the broker on a master, ha on a slave.

The protocol of a batch: `append_limit` before the first byte is copied, `wrote` after the last one.
A writer killed in between leaves bytes that no reader sees, and its successor wipes up to `append_limit`.
"""

import cython

from ipc.control_block import ControlBlock
from ipc.control_layout import APPEND_LIMIT, REQUESTED_OFFSET, WROTE_OFFSET, WROTE_TIMESTAMP

if not cython.compiled:
    from ipc.cells import keep_words, store_cell, writable_cells_of

_APPEND_LIMIT = APPEND_LIMIT
_REQUESTED_OFFSET = REQUESTED_OFFSET
_WROTE_OFFSET = WROTE_OFFSET
_WROTE_TIMESTAMP = WROTE_TIMESTAMP


class LogPublisher:
    """Stores `append_limit`, `wrote_offset`, `wrote_timestamp`, `requested_offset`."""

    __slots__ = ("_cells", "_words")

    def __init__(self, block: ControlBlock) -> None:
        self._words = keep_words(block.words)
        self._cells = writable_cells_of(self._words)

    def append_limit(self, physical_offset: int) -> None:
        """Nothing beyond `physical_offset` will be written until the next call."""
        store_cell(self._cells, _APPEND_LIMIT, physical_offset)

    def wrote(self, physical_offset: int, store_timestamp: int) -> None:
        """Complete records end at `physical_offset`; the last one was stored at `store_timestamp` (ms)."""
        store_cell(self._cells, _WROTE_OFFSET, physical_offset)
        # order: flush loads the timestamp first, so it never has the timestamp of a record beyond the offset.
        store_cell(self._cells, _WROTE_TIMESTAMP, store_timestamp)

    def requested(self, physical_offset: int) -> None:
        """A slave's log begins at `physical_offset`: the housekeeper must reserve that file. -1 withdraws the request."""
        store_cell(self._cells, _REQUESTED_OFFSET, physical_offset)
