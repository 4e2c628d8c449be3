"""The flush role's loop: wait, compare `flushed_offset` with `wrote_offset`, sync, publish, ring the broker.

It never makes, cuts or deletes a file. A sync that fails is final: it says so in `flag_log_error`, syncs nothing any more, and
ends as failed when it is stopped, so that the store counts as not cleanly closed.

With SYNC_FLUSH every answer waits for a round of this loop, whose caches are cold, so this is a hot module (types in the `.pxd`).
"""

import errno
import logging

import cython

from ipc.control_layout import (
    ALLOCATED_OFFSET,
    FLUSHED_OFFSET,
    FLUSHED_TIMESTAMP,
    MIN_OFFSET,
    WROTE_OFFSET,
    WROTE_TIMESTAMP,
)
from ipc.health_row import monotonic_ms
from ipc.publish.flush import FlushPublisher
from ipc.role_context import RoleContext
from store.abort_file import distrust
from store.config import StoreConfig
from store.errors import SyncFailed
from store.fault_point import fault_point
from store.flush.decide import has_gathered, is_due
from store.flush.log_files import LogFiles
from store.followed_options import FollowedOptions
from store.mapped_file import path_of
from store.paths import StorePaths

if not cython.compiled:
    from ipc.cells import load_cell

_ALLOCATED_OFFSET = ALLOCATED_OFFSET
_FLUSHED_OFFSET = FLUSHED_OFFSET
_FLUSHED_TIMESTAMP = FLUSHED_TIMESTAMP
_MIN_OFFSET = MIN_OFFSET
_WROTE_OFFSET = WROTE_OFFSET
_WROTE_TIMESTAMP = WROTE_TIMESTAMP

logger = logging.getLogger(__name__)

_SYNC_LIMIT_MS = 120_000  # limit: a slow disk may take its time for 1 GiB; then the role counts as hung

_CALLED_MS = 500  # limit: how late a nap by the clock may learn of a changed option or a deleted file


def run(context: RoleContext, config: StoreConfig, paths: StorePaths) -> None:
    """Keeps the CommitLog durable until the role is told to stop, and then makes all of it durable.

    Raises SyncFailed at the end if a sync has failed.
    """
    flusher = Flusher(context, config, paths)
    flusher.open_files()
    context.running()
    try:
        while not context.take_stop_order():
            flusher.options.follow()
            flusher.open_files()
            flusher.sync_if_due()
            flusher.wait()
        flusher.sync_all()
    finally:
        flusher.close()


class Flusher:
    """One round of the loop."""

    def __init__(self, context: RoleContext, config: StoreConfig, paths: StorePaths) -> None:
        self._context = context
        self._control = context.control
        self._broker_bell = context.instance.bells["broker"]
        self._config = config
        self._is_sync = config.is_sync_flush
        self._file_size = config.mapped_file_size_commit_log
        self.options = FollowedOptions(context, config)
        self._paths = paths
        self._files = LogFiles(paths, config.mapped_file_size_commit_log)
        self._publisher = FlushPublisher(context.control)
        self._last_thorough_ms = monotonic_ms()
        # A predecessor's failed sync is as final: what the next one says proves nothing.
        failed_before = OSError(errno.EIO, "a sync failed before this role was restarted")
        self._failure = SyncFailed(paths.commit_log, failed_before) if context.control.flag_log_error else None

    def open_files(self) -> None:
        """Opens what the housekeeper has reserved meanwhile, before anything is written to it."""
        self._files.open_reserved(self._flushed_offset(), load_cell(self._control.cells, _ALLOCATED_OFFSET))

    def sync_if_due(self) -> None:
        """Syncs what the rules of flushDiskType ask for now."""
        if self._failure is not None:
            return
        # order: the timestamp first, so that it is never of a record beyond the offset.
        cells = self._control.cells
        timestamp = load_cell(cells, _WROTE_TIMESTAMP)
        wrote = load_cell(cells, _WROTE_OFFSET)
        if self._is_sync or self._is_worth_it(wrote):
            self._sync(wrote, timestamp)

    def sync_all(self) -> None:
        """Syncs everything written. Raises SyncFailed, also for a failure long ago."""
        if self._failure is None:
            timestamp = self._control.wrote_timestamp
            self._sync(self._control.wrote_offset, timestamp)
        if self._failure is not None:
            raise self._failure

    def wait(self) -> None:
        """SYNC_FLUSH: until something is written. ASYNC_FLUSH: until the next look, by the clock or also by the bell.

        Options that have changed and files that were deleted end it too; a nap by the clock learns of them within a second.
        """
        interval_ms = self._config.flush_interval_commit_log
        if self._failure is not None or (self._config.flush_commit_log_timed and not self._is_sync):
            self._nap(interval_ms)
        else:
            self._context.wait(self._has_work, interval_ms)

    def close(self) -> None:
        """Closes the descriptors."""
        self._files.close()

    def _nap(self, interval_ms: int) -> None:
        until_ms = monotonic_ms() + interval_ms
        while (left_ms := until_ms - monotonic_ms()) > 0 and not self._is_called():
            if self._context.nap(min(left_ms, _CALLED_MS)):
                return

    def _is_called(self) -> bool:
        """Whether options have changed, or files that are open here have been deleted."""
        return self.options.have_changed() or self._files.has_before(load_cell(self._control.cells, _MIN_OFFSET))

    def _has_work(self) -> bool:
        wrote, flushed = load_cell(self._control.cells, _WROTE_OFFSET), self._flushed_offset()
        if self._is_sync:
            return wrote > flushed or self._is_called()
        least_pages = max(1, self._config.flush_commit_log_least_pages)
        return has_gathered(flushed, wrote, least_pages, self._file_size) or self._is_called()

    def _flushed_offset(self) -> int:
        """A slave's log may begin at any offset; what is below the first file needs no sync."""
        cells = self._control.cells
        return max(load_cell(cells, _FLUSHED_OFFSET), load_cell(cells, _MIN_OFFSET))

    def _is_worth_it(self, wrote: int) -> bool:
        config = self._config
        now = monotonic_ms()
        least_pages = config.flush_commit_log_least_pages
        if is_due(now, self._last_thorough_ms, config.flush_commit_log_thorough_interval):
            self._last_thorough_ms = now
            least_pages = 0
        return has_gathered(self._flushed_offset(), wrote, least_pages, self._file_size)

    def _sync(self, wrote: int, timestamp: int) -> None:
        """File by file, so that answers need not wait for all of them."""
        begin = self._flushed_offset()
        while begin < wrote:
            file_start = begin - begin % self._file_size
            end = min(file_start + self._file_size, wrote)
            self._context.begin_call("sync of the CommitLog", _SYNC_LIMIT_MS)
            try:
                self._files.sync(file_start, begin, end)
            except OSError as error:
                self._fail(file_start, error)
                return
            finally:
                self._context.end_call()
            fault_point("flush.synced")
            # A file before the last one: its own last timestamp is not known, so the one that holds stays.
            known = timestamp if end == wrote else load_cell(self._control.cells, _FLUSHED_TIMESTAMP)
            self._publisher.flushed(end, known)
            self._broker_bell.ring()
            begin = end

    def _fail(self, file_start: int, error: OSError) -> None:
        self._failure = SyncFailed(path_of(self._paths.commit_log, file_start), error)
        distrust(self._paths.abort)
        self._publisher.log_error()
        self._broker_bell.ring()
        logger.critical(
            "sync failed, the broker refuses writes error=%r flushed_offset=%d wrote_offset=%d",
            str(self._failure),
            self._control.flushed_offset,
            self._control.wrote_offset,
        )
