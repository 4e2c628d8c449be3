"""Deletes expired CommitLog files, by age and by disk use, and reports a full disk.

`min_offset` is raised first, then the file is unlinked, then the other roles are rung: each process releases the file within a second,
and current readers keep their mapping until they are done. Dispatch deletes ConsumeQueue and index files when it sees the new
`min_offset` (store spec, section 8). Deletions before the retention time are in `forced_deletions`.
"""

import logging
import time
from collections import deque

from ipc.control_block import ControlBlock
from ipc.counter_page import CounterPage
from ipc.health_row import monotonic_ms
from ipc.publish.housekeeper import HousekeeperPublisher
from store.config import StoreConfig
from store.disk import used_ratio
from store.fault_point import fault_point
from store.flush.decide import is_due
from store.housekeeping.decide import (
    DELETED_A_RUN,
    DiskState,
    LogFile,
    disk_state,
    files_to_delete,
    safe_to_delete_offset,
)
from store.housekeeping.forced_deletions import CLEANING_ROUNDS, ForcedDeletions
from store.mapped_file import path_of, sync_directory
from store.mapped_file_queue import list_starts
from store.paths import StorePaths, file_name

logger = logging.getLogger(__name__)

_DISK_INTERVAL_MS = 10_000  # compat: RocketMQ's interval of disk checks
_HOUR_MS = 3_600_000


class LogCleaner:
    """Decides on deletions of CommitLog files and executes them, one at a time."""

    def __init__(self, control: ControlBlock, config: StoreConfig, paths: StorePaths, counters: CounterPage) -> None:
        self._control = control
        self._publisher = HousekeeperPublisher(control)
        self._config = config
        self._paths = paths
        self._counters = counters
        self._doomed: deque[int] = deque()
        self._forced = ForcedDeletions(control, config, paths, counters, self._delete)
        self._forced_left = 0
        """How many more files may be deleted in this run before their retention time expires."""
        now = monotonic_ms()
        self._last_delete_ms = now - config.delete_commit_log_files_interval
        self._last_run_ms = now - config.clean_resource_interval
        self._last_disk_ms = now - _DISK_INTERVAL_MS
        self._disk = DiskState(is_full=False, delete_expired=False, delete_oldest=False)

    @property
    def has_requests(self) -> bool:
        """Whether an operator's request for a deletion is pending."""
        return self._control.delete_expired_requests > self._control.delete_expired_handled

    @property
    def is_deleting(self) -> bool:
        """Whether selected files are not deleted yet; they are deleted at intervals."""
        return bool(self._doomed) or self._forced.is_busy

    @property
    def is_called(self) -> bool:
        """Whether there is work for which this role was rung."""
        return (self.has_requests and not self.is_deleting) or self._forced.are_counted

    def look_at_disk(self, is_out_of_space: bool) -> bool:
        """Raises or clears `flag_disk_full`, every ten seconds or when a file could not be reserved. True: it changed."""
        now = monotonic_ms()
        if is_due(now, self._last_disk_ms, _DISK_INTERVAL_MS):
            self._last_disk_ms = now
            self._measure_disk()
        is_full = self._disk.is_full or is_out_of_space
        if is_full == bool(self._control.flag_disk_full):
            return False
        self._publisher.disk_full(is_full)
        logger.warning("disk full, writes stopped" if is_full else "disk no longer full, writes resumed")
        return True

    def choose(self, is_out_of_space: bool) -> bool:
        """Selects files to delete: at the configured hour, when the disk is nearly full, or on request. True: ring the broker."""
        now = monotonic_ms()
        requests = self._control.delete_expired_requests
        if self.has_requests and not self.is_deleting:
            # All expired files are deleted, in as many runs as necessary.
            self._add_expired()
            if not self._doomed:
                self._publisher.delete_expired_handled(requests)
        if is_due(now, self._last_run_ms, self._config.clean_resource_interval):
            self._last_run_ms = now
            self._counters.add(CLEANING_ROUNDS)
            self._measure_disk()
            short = is_out_of_space or self._disk.delete_expired
            if short or time.localtime().tm_hour in self._config.delete_hours:
                self._add_expired()
                self._forced_left = DELETED_A_RUN
        return self._may_force(is_out_of_space) and self._begin_forced()

    def try_delete_next(self) -> bool:
        """Deletes the next selected file if it is due. True: `min_offset` has moved."""
        if self._forced.is_busy:
            return self._go_on_by_force()
        now = monotonic_ms()
        if not self._doomed or now < self._next_delete_ms:
            return False
        start = self._doomed.popleft()
        self._delete(start)
        logger.info(
            "CommitLog file deleted path=%s min_offset=%d",
            path_of(self._paths.commit_log, start), self._control.min_offset,
        )  # fmt: skip
        return True

    @property
    def _next_delete_ms(self) -> int:
        return self._last_delete_ms + self._config.delete_commit_log_files_interval

    def next_work_ms(self) -> int:
        """The time in ms until the next periodic work."""
        now = monotonic_ms()
        due = [
            self._last_disk_ms + _DISK_INTERVAL_MS,
            self._last_run_ms + self._config.clean_resource_interval,
        ]
        forced_ms = self._forced.next_work_ms(now)
        if forced_ms is not None:
            due.append(forced_ms)
        elif self._doomed or self._may_force(is_out_of_space=False):
            due.append(self._next_delete_ms)
        return max(0, min(due) - now)

    def _delete(self, start: int) -> None:
        self._last_delete_ms = monotonic_ms()
        # order: readers stop reading below min_offset before the file is deleted.
        self._publisher.min_offset(start + self._config.mapped_file_size_commit_log)
        fault_point("housekeeping.min_raised")
        path_of(self._paths.commit_log, start).unlink(missing_ok=True)
        sync_directory(
            self._paths.commit_log
        )  # a power cut must not restore an older file while a newer one is missing
        fault_point("housekeeping.deleted")

    def _measure_disk(self) -> None:
        self._disk = disk_state(
            used_ratio(self._paths.commit_log),
            used_ratio(self._paths.consume_queue),
            self._config.disk_max_used_ratio,
        )
        if not self._disk.delete_oldest:
            self._forced.disk_is_not_short()

    def _may_force(self, is_out_of_space: bool) -> bool:
        """Whether another file may be deleted before its retention time expires."""
        return (
            self._forced_left > 0
            and (is_out_of_space or self._disk.delete_oldest)
            and self._config.may_delete_unexpired
            and not self._doomed
            and not self._forced.is_busy
        )

    def _begin_forced(self) -> bool:
        if monotonic_ms() < self._next_delete_ms:
            return False
        self._forced_left -= 1
        for start in self._deletable(delete_oldest=True)[:1]:
            if self._forced.begin(start):
                return True
        self._forced_left = 0
        return False

    def _go_on_by_force(self) -> bool:
        has_moved = self._forced.go_on()
        if not self._forced.is_busy:
            self._measure_disk()  # before another one is deleted
        return has_moved

    def _add_expired(self) -> None:
        if not self.is_deleting:
            self._doomed.extend(self._deletable(delete_oldest=False))

    def _deletable(self, delete_oldest: bool) -> list[int]:
        control, size = self._control, self._config.mapped_file_size_commit_log
        safe = safe_to_delete_offset(control.wrote_offset, control.flushed_offset, control.reput_offset, size)
        files = []
        for start in list_starts(self._paths.commit_log, size, "mappedFileSizeCommitLog"):
            changed = (self._paths.commit_log / file_name(start)).stat().st_mtime
            files.append(LogFile(start, int(changed * 1000)))
        reserved_ms = self._config.file_reserved_time * _HOUR_MS
        return files_to_delete(files, int(time.time() * 1000), reserved_ms, safe, size, delete_oldest=delete_oldest)
