"""Deletes the oldest CommitLog files before their retention time expires because the disk is nearly full, one file at a time.

    announce      `forced_offset` is the new beginning of the log; the broker counts the losses of consumer groups
    delete        when it has answered, or after a timeout: `min_offset` is raised, the file is unlinked
    measure       until the disk has the file's space back; only then may the next file follow

An announced deletion is always completed, also by the successor of a killed housekeeper, because the broker has
logged the losses.

Deleting a file frees no space while a process has it open or mapped, while it has another hard link, or while a snapshot of the file system
retains it. Then no more files are deleted until the space is freed or the disk is no longer nearly full: deletions would lose messages
without effect.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from ipc.control_block import ControlBlock
from ipc.counter_page import CounterPage
from ipc.health_row import monotonic_ms
from ipc.publish.housekeeper import HousekeeperPublisher
from store.config import StoreConfig
from store.disk import unused_bytes
from store.mapped_file import path_of
from store.paths import StorePaths

logger = logging.getLogger(__name__)

FORCED_DELETIONS = "forced_deletions"
FORCED_DELETED_BYTES = "forced_deleted_bytes"
CLEANING_ROUNDS = "cleaning_rounds"
"""Rounds in which the housekeeper has searched for files to delete, one per cleanResourceInterval."""
COUNTERS = (FORCED_DELETIONS, FORCED_DELETED_BYTES, CLEANING_ROUNDS)

_COUNTING_MS = 5000  # limit: a broker counts several thousand queues per second
_FREEING_MS = 3000  # limit: processes release a file within a second; later releases are seen at the next run
_POLL_MS = 100
_LEAST_SHARE = 2  # limit: half of the space must be freed; other programs write to the disk meanwhile
_BLOCK_BYTES = 512  # of st_blocks, on every file system


class _Deletion(Struct):
    """A deleted file, and the free space before."""

    path: Path
    allocated_bytes: int
    unused_before: int
    allocated_offset_before: int
    deadline_ms: int


class ForcedDeletions:
    """One at a time: `begin`, then `go_on` until `is_busy` is no longer true.

    `delete(start)` raises `min_offset` and unlinks the file that begins there.
    """

    def __init__(
        self,
        control: ControlBlock,
        config: StoreConfig,
        paths: StorePaths,
        counters: CounterPage,
        delete: Callable[[int], None],
    ) -> None:
        self._control = control
        self._config = config
        self._directory = paths.commit_log
        self._counters = counters
        self._publisher = HousekeeperPublisher(control)
        self._delete = delete
        self._announced = -1
        self._counting_until_ms = 0
        self._freeing: _Deletion | None = None
        self._useless: _Deletion | None = None
        self._kept: Path | None = None
        if control.forced_offset > control.min_offset:
            self._announced = control.forced_offset - config.mapped_file_size_commit_log
            self._counting_until_ms = monotonic_ms() + _COUNTING_MS

    @property
    def is_busy(self) -> bool:
        """Whether a file is announced, or was deleted and its space is not freed yet."""
        return self._announced >= 0 or self._freeing is not None

    @property
    def are_counted(self) -> bool:
        """Whether a file is announced whose losses are counted."""
        return self._announced >= 0 and self._control.losses_counted_offset >= self._control.forced_offset

    def begin(self, start: int) -> bool:
        """Announces the deletion of the file that begins there; then ring the broker. False if deletions are known to be ineffective."""
        if self._useless is not None:
            if not self._has_freed(self._useless):
                return False
            logger.info("deleted file's disk space freed path=%s", self._useless.path)
            self._useless = None
        path = path_of(self._directory, start)
        if self._is_kept_by_another_name(path):
            return False
        self._announced = start
        self._counting_until_ms = monotonic_ms() + _COUNTING_MS
        self._publisher.forced_offset(start + self._config.mapped_file_size_commit_log)
        return True

    def go_on(self) -> bool:
        """Deletes the announced file if it may, or checks whether its space is freed. True: `min_offset` has moved."""
        now = monotonic_ms()
        if self._announced >= 0 and (self.are_counted or now >= self._counting_until_ms):
            if not self.are_counted:
                logger.warning(
                    "file deleted without counting lost messages, the broker did not respond path=%s",
                    path_of(self._directory, self._announced),
                )
            start, self._announced = self._announced, -1
            return self._delete_announced(start, now)
        deletion = self._freeing
        if deletion is None:
            return False
        if self._has_freed(deletion):
            self._freeing = None
        elif now >= deletion.deadline_ms:
            self._freeing, self._useless = None, deletion
            logger.warning(
                "forced deletion stopped, deleting a file did not free its space path=%s expected_bytes=%d freed_bytes=%d "
                "advice='look for a process that keeps the file open (lsof +L1), a snapshot, or a program that fills the disk; "
                "free space, or set whenDiskFull=reject'",
                deletion.path, deletion.allocated_bytes, self._freed_bytes(deletion),
            )  # fmt: skip
        return False

    def disk_is_not_short(self) -> None:
        """There is space again: forgets ineffective deletions."""
        self._useless = self._kept = None

    def next_work_ms(self, now: int) -> int | None:
        """When to call `go_on`, by the monotonic clock; None if there is nothing to do."""
        if self._announced >= 0:
            return now if self.are_counted else self._counting_until_ms
        return now + _POLL_MS if self._freeing is not None else None

    def _delete_announced(self, start: int, now: int) -> bool:
        path = path_of(self._directory, start)
        try:
            allocated = path.stat().st_blocks * _BLOCK_BYTES
        except FileNotFoundError:
            allocated = 0  # a predecessor was killed after it had unlinked the file
        deletion = _Deletion(
            path, allocated, unused_bytes(self._directory), self._control.allocated_offset, now + _FREEING_MS
        )
        self._delete(start)
        self._freeing = deletion
        self._counters.add(FORCED_DELETIONS)
        self._counters.add(FORCED_DELETED_BYTES, self._config.mapped_file_size_commit_log)
        logger.warning(
            "CommitLog file deleted before its retention time expired path=%s min_offset=%d retention_hours=%d "
            "cause=disk_nearly_full",
            path, self._control.min_offset, self._config.file_reserved_time,
        )  # fmt: skip
        return True

    def _is_kept_by_another_name(self, path: Path) -> bool:
        """Whether the file has another hard link, such as an export's: unlinking it would free no space."""
        try:
            links = path.stat().st_nlink
        except FileNotFoundError:
            return False
        if links > 1 and self._kept != path:
            self._kept = path
            logger.warning(
                "forced deletion stopped, the oldest file has another hard link and deleting it would free no space path=%s links=%d "
                "advice='end the exports that hold it (headrace status), or free space'",
                path, links,
            )  # fmt: skip
        return links > 1

    def _freed_bytes(self, deletion: _Deletion) -> int:
        reserved_since = self._control.allocated_offset - deletion.allocated_offset_before
        return unused_bytes(self._directory) - deletion.unused_before + reserved_since

    def _has_freed(self, deletion: _Deletion) -> bool:
        return self._freed_bytes(deletion) * _LEAST_SHARE >= deletion.allocated_bytes
