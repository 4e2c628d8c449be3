"""Publishes the first value of every cell. For recover only, which runs alone before all other roles."""

from ipc import control_layout as layout
from ipc.cells import store_cell
from ipc.control_block import ControlBlock


class RecoverPublisher:
    """Stores the state found on disk."""

    __slots__ = ("_words",)

    def __init__(self, block: ControlBlock) -> None:
        self._words = block.words

    def first_values(
        self,
        *,
        min_offset: int,
        wrote_offset: int,
        allocated_offset: int,
        reput_offset: int,
        wrote_timestamp: int = 0,
        reput_timestamp: int = 0,
        index_timestamp: int = 0,
    ) -> None:
        """The store on disk, synced and wiped: physical offsets, timestamps in ms (0: unknown).

        Everything found is durable, so `flushed_offset` equals `wrote_offset`, and nothing beyond was written. Flags,
        counts of requests and the progress of slaves begin at zero.
        """
        values = {cell.name: 0 for cell in layout.CELLS}
        values |= {
            "min_offset": min_offset,
            "requested_offset": -1,
            "allocated_offset": allocated_offset,
            "append_limit": wrote_offset,
            "wrote_offset": wrote_offset,
            "wrote_timestamp": wrote_timestamp,
            "flushed_offset": wrote_offset,
            "flushed_timestamp": wrote_timestamp,
            "reput_offset": reput_offset,
            "reput_timestamp": reput_timestamp,
            "index_timestamp": index_timestamp,
        }
        for cell in layout.CELLS:
            store_cell(self._words, cell.word, values[cell.name])
