"""Publishes the durable end of the CommitLog. For flush only."""

import cython

from ipc.control_block import ControlBlock
from ipc.control_layout import FLAG_LOG_ERROR, FLUSHED_OFFSET, FLUSHED_TIMESTAMP

if not cython.compiled:
    from ipc.cells import keep_words, store_cell, writable_cells_of

_FLAG_LOG_ERROR = FLAG_LOG_ERROR
_FLUSHED_OFFSET = FLUSHED_OFFSET
_FLUSHED_TIMESTAMP = FLUSHED_TIMESTAMP


class FlushPublisher:
    """Stores `flushed_offset`, `flushed_timestamp`, `flag_log_error`."""

    __slots__ = ("_cells", "_words")

    def __init__(self, block: ControlBlock) -> None:
        self._words = keep_words(block.words)
        self._cells = writable_cells_of(self._words)

    def flushed(self, physical_offset: int, store_timestamp: int) -> None:
        """Everything below `physical_offset` is durable. `store_timestamp`: `wrote_timestamp` as loaded before the offset."""
        store_cell(self._cells, _FLUSHED_OFFSET, physical_offset)
        # order: the housekeeper loads the timestamp first, so the checkpoint never covers a record that is not durable.
        store_cell(self._cells, _FLUSHED_TIMESTAMP, store_timestamp)

    def log_error(self) -> None:
        """A sync has failed. This is final: a second sync that succeeds proves nothing."""
        store_cell(self._cells, _FLAG_LOG_ERROR, 1)
