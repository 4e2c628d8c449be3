"""Publishes the end of the CommitLog. For the log writer only: the broker on a master, ha on a slave.

The protocol of a batch: `append_limit` before the first byte is copied, `wrote` after the last one.
A writer killed in between leaves bytes that no reader sees, and its successor wipes up to `append_limit`.
"""

from ipc.cells import store_cell
from ipc.control_block import ControlBlock
from ipc.control_layout import APPEND_LIMIT, REQUESTED_OFFSET, WROTE_OFFSET, WROTE_TIMESTAMP


class LogPublisher:
    """Stores `append_limit`, `wrote_offset`, `wrote_timestamp`, `requested_offset`."""

    __slots__ = ("_words",)

    def __init__(self, block: ControlBlock) -> None:
        self._words = block.words

    def append_limit(self, physical_offset: int) -> None:
        """Nothing beyond `physical_offset` will be written until the next call."""
        store_cell(self._words, APPEND_LIMIT, physical_offset)

    def wrote(self, physical_offset: int, store_timestamp: int) -> None:
        """Complete records end at `physical_offset`; the last one was stored at `store_timestamp` (ms)."""
        store_cell(self._words, WROTE_OFFSET, physical_offset)
        # order: flush loads the timestamp first, so it never has the timestamp of a record beyond the offset.
        store_cell(self._words, WROTE_TIMESTAMP, store_timestamp)

    def requested(self, physical_offset: int) -> None:
        """A slave's log begins at `physical_offset`: the housekeeper must reserve that file. -1 withdraws the request."""
        store_cell(self._words, REQUESTED_OFFSET, physical_offset)
