"""Syncs ConsumeQueues and full IndexFiles, and writes the checkpoint.

Grown ConsumeQueues are found in the ring of changed rows, so that thousands of idle queues cost nothing. Units of extended
queues are synced with them. The current IndexFile is synced only at the stop: after a crash it is rebuilt
(store spec, 4.4). Thousands of queues are then synced with their whole file system, which takes a tenth of the time.
A failed sync here costs only time: the checkpoint is not written any more, and the next start rebuilds the rest.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from headrace.protocol.consume_queue_layout import ENTRY_SIZE
from ipc.health_row import monotonic_ms
from ipc.queue_rows import MAX_QUEUE_OFFSET
from ipc.queue_table import row_word
from ipc.role_context import RoleContext
from store.abort_file import distrust
from store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from store.config import StoreConfig
from store.errors import SyncFailed
from store.fault_point import fault_point
from store.flush.decide import is_due
from store.housekeeping.decide import files_between, worth_syncing_from
from store.index.layout import HEADER, HEADER_SIZE
from store.mapped_file import path_of, sync_directory, sync_file, sync_file_system
from store.paths import StorePaths

logger = logging.getLogger(__name__)

_SYNC_LIMIT_MS = 120_000  # limit: as for the CommitLog; an IndexFile has 400 MB
_MANY_QUEUES = 2000  # limit: so many syncs take half a second on a fast disk

Queue = tuple[bytes, int]


class IndexSync:
    """Tracks how much of each queue is durable, and which IndexFiles are."""

    def __init__(self, context: RoleContext, config: StoreConfig, paths: StorePaths) -> None:
        self._context = context
        self._control = context.control
        self._config = config
        self._paths = paths
        self._table = context.instance.queue_table()
        self._ring = context.instance.changed_rows_reader()
        self._names: dict[int, Queue] = {}
        self._seen_changes = -1
        self._changed: set[int] = set()
        self._synced: dict[Queue, int] = {}
        self._worth_from: dict[int, int] = {}
        """The maximum offset from which a row's queue has enough for a sync between thorough rounds, where it had not yet."""
        self._least_pages = config.flush_consume_queue_least_pages
        self._last_units: dict[Queue, str] = {}
        self._synced_index: set[str] = set()
        self._new_names: set[Path] = set()
        """Directories with names that are not durable yet, during a round."""
        self._checkpoint = read_checkpoint(paths.checkpoint)
        now = monotonic_ms()
        self._last_look_ms = now
        self._last_thorough_ms = now
        self._all_rows_changed = True
        self._failure: SyncFailed | None = None

    def sync_if_due(self, between: Callable[[], None]) -> None:
        """A periodic round; `between` is called after every file, for urgent work."""
        now = monotonic_ms()
        if not is_due(now, self._last_look_ms, self._config.flush_interval_consume_queue):
            return
        self._last_look_ms = now
        thorough = is_due(now, self._last_thorough_ms, self._config.flush_consume_queue_thorough_interval)
        if thorough:
            self._last_thorough_ms = now
        # A full IndexFile moves the checkpoint at once, as in RocketMQ.
        if self._guarded(lambda: self._round(thorough, between)):
            logger.debug("indexes synced full=%s", thorough)

    def next_work_ms(self) -> int:
        """In how many ms the next round is due."""
        return max(0, self._last_look_ms + self._config.flush_interval_consume_queue - monotonic_ms())

    def sync_all(self) -> None:
        """Syncs everything, including the current IndexFile, and writes the checkpoint. Raises SyncFailed, also for an earlier failure."""
        self._guarded(self._last_round)
        if self._failure is not None:
            raise self._failure

    # ---- rounds

    def _round(self, thorough: bool, between: Callable[[], None], *, is_last: bool = False) -> None:
        # order: the timestamps are read before the syncs that make them true.
        physic, logics = self._control.flushed_timestamp, self._control.reput_timestamp
        self._take_changes()
        if not (is_last and len(self._changed) > _MANY_QUEUES and self._sync_file_systems()):
            self._sync_queues(thorough, between)
        index_timestamp = self._sync_full_index_files(between)
        before = self._checkpoint
        self._checkpoint = Checkpoint(
            physic_timestamp=physic if thorough and physic > 0 else before.physic_timestamp,
            logics_timestamp=logics if thorough and logics > 0 else before.logics_timestamp,
            index_timestamp=index_timestamp or before.index_timestamp,
        )
        if thorough or self._checkpoint != before:
            write_checkpoint(self._paths.checkpoint, self._checkpoint)

    def _last_round(self) -> None:
        self._round(True, lambda: None, is_last=True)
        for path in self._index_files()[-1:]:
            self._sync_file(path)

    def _guarded(self, work: Callable[[], None]) -> bool:
        """Runs a round unless one has failed before; returns whether it did."""
        if self._failure is not None:
            return False
        try:
            work()
        except SyncFailed as error:
            self._failure = error
            distrust(self._paths.abort)
            logger.critical(
                "checkpoint disabled after a failed sync, the next start rebuilds the indexes error=%r", str(error)
            )
            return False
        return True

    # ---- ConsumeQueues

    def _take_changes(self) -> None:
        rows = self._ring.take()
        # order: after the ring, so that rows added before it was lapped are known
        changes = self._table.changes
        if changes != self._seen_changes:
            self._seen_changes = changes
            self._names = {row: (topic, queue_id) for row, topic, queue_id, *_ in self._table.rows()}
            self._worth_from.clear()
            known = set(self._names.values())
            self._synced = {queue: done for queue, done in self._synced.items() if queue in known}
            self._last_units = {queue: name for queue, name in self._last_units.items() if queue in known}
        if rows is None or self._all_rows_changed:
            self._changed = set(self._names)
            self._all_rows_changed = False
        else:
            self._changed.update(rows)

    def _sync_queues(self, thorough: bool, between: Callable[[], None]) -> None:
        words = self._table.words
        worth_from = self._worth_from
        if self._least_pages != self._config.flush_consume_queue_least_pages:
            self._least_pages = self._config.flush_consume_queue_least_pages
            worth_from.clear()
        # With thousands of queues nearly all change in each round, and few have enough for a sync: those cost one comparison.
        for row in sorted(
            row
            for row in self._changed
            if thorough or words[row_word(row) + MAX_QUEUE_OFFSET] >= worth_from.get(row, 0)
        ):
            queue = self._names.get(row)
            if queue is None:  # freed, or added since: then the table has changed and the next round knows it
                if thorough:
                    self._changed.discard(row)
                continue
            first, last, _ = self._table.bounds(row)
            written = last * ENTRY_SIZE
            synced = min(self._synced.get(queue, first * ENTRY_SIZE), written)
            worth = worth_syncing_from(synced, self._least_pages)
            if thorough or written >= worth:
                self._sync_queue(queue, synced, written, between)
                self._changed.discard(row)
                worth_from.pop(row, None)
            else:
                worth_from[row] = worth // ENTRY_SIZE
        # The names of new files and new directories must also survive a power cut. Thousands of new queues have few directories in common.
        for directory in sorted(self._new_names):
            self._sync_names(directory)
            between()
        self._new_names.clear()

    def _sync_queue(self, queue: Queue, synced: int, written: int, between: Callable[[], None]) -> None:
        topic, queue_id = queue
        directory = self._paths.queue(os.fsdecode(topic), queue_id)
        size = self._config.consume_queue_file_size
        has_new_file = queue not in self._synced
        for start in files_between(synced, written, size):
            has_new_file |= start >= synced
            self._sync_file(path_of(directory, start))
            between()
        if self._config.enable_consume_queue_ext:
            self._sync_units(queue, between)
        fault_point("housekeeping.queue_synced")
        if has_new_file:
            self._new_names |= {directory, directory.parent, self._paths.consume_queue}
        self._synced[queue] = written

    def _sync_units(self, queue: Queue, between: Callable[[], None]) -> None:
        """The files of units that the queue's entries lead to, from the one that was the last at the round before."""
        topic, queue_id = queue
        extension = self._paths.root / "consumequeue_ext"
        directory = extension / os.fsdecode(topic) / str(queue_id)
        try:
            names = sorted(os.listdir(directory))
        except FileNotFoundError:
            return
        last = self._last_units.get(queue, "")
        for name in names:
            if name >= last:
                self._sync_file(directory / name)
                between()
        if names and names[-1] != last:
            self._new_names |= {directory, directory.parent, extension, self._paths.root}
            self._last_units[queue] = names[-1]

    def _sync_file_systems(self) -> bool:
        """Syncs all that the queues lie on, also a topic's folder that is on a disk of its own; False if some must be synced file by file."""
        folders = {
            folder.stat().st_dev: folder
            for parent in (self._paths.consume_queue, self._paths.root / "consumequeue_ext")
            if parent.is_dir()
            for folder in (parent, *parent.iterdir())
            if folder.is_dir()
        }
        for folder in folders.values():
            with self._context.long_call("sync of all queues", _SYNC_LIMIT_MS):
                if not sync_file_system(folder):
                    return False
        return True

    # ---- IndexFiles

    def _index_files(self) -> list[Path]:
        try:
            names = sorted(name for name in os.listdir(self._paths.index) if name.isdigit())
        except FileNotFoundError:
            return []
        return [self._paths.index / name for name in names]

    def _sync_full_index_files(self, between: Callable[[], None]) -> int:
        """Syncs those that are full, which all but the newest are; returns the end timestamp of the last of them, or 0."""
        timestamp = 0
        full = self._index_files()[:-1]
        for path in full:
            if path.name not in self._synced_index:
                if not self._sync_file(path):
                    continue
                self._sync_names(self._paths.index)
                self._synced_index.add(path.name)
                between()
        if full:
            timestamp = _end_timestamp(full[-1])
        return timestamp

    # ---- syncing

    def _sync_file(self, path: Path) -> bool:
        """False if the file is gone."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            with self._context.long_call("sync of an index", _SYNC_LIMIT_MS):
                sync_file(fd, path)
        finally:
            os.close(fd)
        return True

    def _sync_names(self, directory: Path) -> None:
        try:
            sync_directory(directory)
        except FileNotFoundError:
            return
        except OSError as error:
            raise SyncFailed(directory, error) from error


def _end_timestamp(path: Path) -> int:
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_SIZE)
    except FileNotFoundError:
        return 0
    return int(HEADER.unpack(header)[1]) if len(header) == HEADER_SIZE else 0
