"""Publishes which CommitLog files exist. For the housekeeper only.

`min_offset` is raised before a file is unlinked, `allocated_offset` after one is reserved.
"""

from ipc.cells import store_cell
from ipc.control_block import ControlBlock
from ipc.control_layout import ALLOCATED_OFFSET, DELETE_EXPIRED_HANDLED, FLAG_DISK_FULL, FORCED_OFFSET, MIN_OFFSET


class HousekeeperPublisher:
    """Stores `min_offset`, `forced_offset`, `allocated_offset`, `flag_disk_full`, `delete_expired_handled`."""

    __slots__ = ("_words",)

    def __init__(self, block: ControlBlock) -> None:
        self._words = block.words

    def min_offset(self, physical_offset: int) -> None:
        """The log begins at `physical_offset`; files below may be deleted at any time."""
        store_cell(self._words, MIN_OFFSET, physical_offset)

    def forced_offset(self, physical_offset: int) -> None:
        """The log will begin at `physical_offset`, by a deletion before the retention time; ring the broker, which counts lost messages."""
        store_cell(self._words, FORCED_OFFSET, physical_offset)

    def allocated_offset(self, physical_offset: int) -> None:
        """CommitLog files are reserved up to `physical_offset`."""
        store_cell(self._words, ALLOCATED_OFFSET, physical_offset)

    def disk_full(self, full: bool) -> None:
        """Whether writes must stop for lack of space."""
        store_cell(self._words, FLAG_DISK_FULL, int(full))

    def delete_expired_handled(self, count: int) -> None:
        """The first `count` requests to delete expired files are done."""
        store_cell(self._words, DELETE_EXPIRED_HANDLED, count)
