"""Keeps CommitLog files reserved ahead of the log writer, and deletes unused ones.

`allocated_offset` is raised after a file is whole and durable under its name; `min_offset` says where the first one begins.
A log that is copied from a master begins where the master's first frame does (`requested_offset`); until then no file is reserved.
"""

import logging

from ipc.control_block import ControlBlock
from ipc.publish.housekeeper import HousekeeperPublisher
from store.config import StoreConfig
from store.errors import StoreFull
from store.fault_point import fault_point
from store.housekeeping.decide import files_to_reserve, unused_files
from store.mapped_file import path_of, reserve_file, sync_directory
from store.mapped_file_queue import list_starts
from store.paths import StorePaths

logger = logging.getLogger(__name__)


class LogReserver:
    """Creates CommitLog files; the only class that does."""

    def __init__(self, control: ControlBlock, config: StoreConfig, paths: StorePaths, *, is_log_copied: bool) -> None:
        """`is_log_copied`: a master sends the log."""
        self._control = control
        self._publisher = HousekeeperPublisher(control)
        self._paths = paths
        self._size = config.mapped_file_size_commit_log
        self._is_log_copied = is_log_copied
        self.is_out_of_space = False

    def take_over(self) -> None:
        """Lists the folder and publishes its state: a predecessor may have died between an action and its publication."""
        for leftover in self._paths.commit_log.parent.glob(f".reserving-{self._paths.commit_log.name}-*"):
            leftover.unlink(missing_ok=True)
        starts = list_starts(self._paths.commit_log, self._size, "mappedFileSizeCommitLog")
        for start in [start for start in starts if start + self._size <= self._control.min_offset]:
            path_of(self._paths.commit_log, start).unlink()
            starts.remove(start)
        if starts:
            self._publisher.min_offset(starts[0])
            self._publisher.allocated_offset(starts[-1] + self._size)

    def is_short(self) -> bool:
        """Whether a file should be reserved now."""
        control = self._control
        if self._requested_start() >= 0:
            return True
        if self._waits_for_master():
            return False
        return bool(files_to_reserve(control.wrote_offset, control.allocated_offset, self._size))

    def try_reserve_next(self) -> bool:
        """Reserves one file if one is needed. False: none is, or the disk has no room (then `is_out_of_space`)."""
        if not self.is_short():
            return False
        requested = self._requested_start()
        if requested >= 0:
            self._begin_at(requested)
        control = self._control
        for start in files_to_reserve(
            max(control.wrote_offset, control.min_offset), control.allocated_offset, self._size
        ):
            return self._try_reserve(start)
        return False

    def delete_unused(self) -> None:
        """Deletes unwritten files, as RocketMQ does when it stops. Only while no log writer runs."""
        starts = list_starts(self._paths.commit_log, self._size, "mappedFileSizeCommitLog")
        for start in unused_files(starts, self._control.wrote_offset):
            self._publisher.allocated_offset(start)
            path_of(self._paths.commit_log, start).unlink()
        sync_directory(self._paths.commit_log)

    def _try_reserve(self, start: int) -> bool:
        path = path_of(self._paths.commit_log, start)
        try:
            reserve_file(path, self._size)
        except StoreFull as error:
            if not self.is_out_of_space:
                logger.error("CommitLog file allocation failed error=%r", str(error))
            self.is_out_of_space = True
            return False
        fault_point("housekeeping.reserved")
        self.is_out_of_space = False
        self._publisher.allocated_offset(start + self._size)
        return True

    def _waits_for_master(self) -> bool:
        """Whether it is not known yet where a copied log will begin."""
        return self._is_log_copied and self._control.wrote_offset == 0

    def _requested_start(self) -> int:
        """The file at which a slave's log shall begin, unless that has been arranged; -1: nothing is asked."""
        control = self._control
        requested = control.requested_offset
        if requested < 0 or control.wrote_offset > 0:
            return -1
        start = requested - requested % self._size
        arranged = control.min_offset == start and control.allocated_offset > start
        return -1 if arranged else start

    def _begin_at(self, start: int) -> None:
        """The empty log of a slave begins here: files reserved elsewhere are deleted."""
        for other in list_starts(self._paths.commit_log, self._size, "mappedFileSizeCommitLog"):
            if other < start:
                path_of(self._paths.commit_log, other).unlink()
        if self._control.min_offset != start:
            self._publisher.allocated_offset(start)
            self._publisher.min_offset(start)
