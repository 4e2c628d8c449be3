"""Publishes the durable end of the CommitLog. For flush only."""

from ipc.cells import store_cell
from ipc.control_block import ControlBlock
from ipc.control_layout import FLAG_LOG_ERROR, FLUSHED_OFFSET, FLUSHED_TIMESTAMP


class FlushPublisher:
    """Stores `flushed_offset`, `flushed_timestamp`, `flag_log_error`."""

    __slots__ = ("_words",)

    def __init__(self, block: ControlBlock) -> None:
        self._words = block.words

    def flushed(self, physical_offset: int, store_timestamp: int) -> None:
        """Everything below `physical_offset` is durable. `store_timestamp`: `wrote_timestamp` as loaded before the offset."""
        store_cell(self._words, FLUSHED_OFFSET, physical_offset)
        # order: the housekeeper loads the timestamp first, so the checkpoint never covers a record that is not durable.
        store_cell(self._words, FLUSHED_TIMESTAMP, store_timestamp)

    def log_error(self) -> None:
        """A sync has failed. This is final: a second sync that succeeds proves nothing."""
        store_cell(self._words, FLAG_LOG_ERROR, 1)
