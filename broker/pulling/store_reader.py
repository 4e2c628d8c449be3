"""StoreReader: reads messages by queue, key, time and physical offset, and has the threads that read messages no longer in memory."""

import asyncio
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil

from broker.settings import Settings
from ipc.control_block import ControlBlock
from ipc.queue_table import QueueTable
from store.commit_log.reader import CommitLogReader
from store.consume_queue.reader import ConsumeQueueReader
from store.errors import CorruptRecord
from store.query.by_key import KeyQuery
from store.query.by_time import TimeQuery
from store.query.filtered import FilteredGetter
from store.query.function_filtered import FunctionFilteredGetter
from store.query.get import MessageGetter, warm
from store.query.sources import PullSources
from store.query.unreadable_records import UnreadableRecords


class StoreReader:
    """Reads only what other processes have published."""

    def __init__(self, settings: Settings, control: ControlBlock, queue_table: QueueTable) -> None:
        config, paths = settings.store, settings.paths
        self._control = control
        self._queue_table = queue_table
        self._released_offset = 0
        self._released = (0, 0)
        self._releasing: Iterator[None] | None = None
        self.unreadable = UnreadableRecords()
        self.log = CommitLogReader(paths, config, control)
        self.queues = ConsumeQueueReader(paths, config, queue_table)
        sources = PullSources(self.queues, self.log, control, config, psutil.virtual_memory().total, self.unreadable)
        self.getter = MessageGetter(sources)
        self.filtered = FilteredGetter(sources, paths)
        self.judged = FunctionFilteredGetter(sources) if settings.filter_workers else None
        self.by_time = TimeQuery(self.queues, self.log)
        self.by_key = KeyQuery(paths, config, self.log, self.unreadable)
        self.view = self.log.copy_record
        self.executor = ThreadPoolExecutor(4, "cold-read")

    def earliest_time(self) -> int:
        """Store time of the log's first message; -1 without one, or if the disk has damaged it."""
        first = self._control.min_offset
        try:
            size = self.log.record_size_at(first) or 0
        except CorruptRecord:
            return -1
        return self.log.store_timestamp_at(first, size)

    def release_deleted(self) -> None:
        """Releases deleted files, so that their disk space is freed. Called periodically; many files take several calls."""
        control = self._control
        if control.min_offset != self._released_offset:
            self._released_offset = control.min_offset
            for getter in (self.getter, self.filtered, self.judged):
                if getter is not None:
                    getter.release_deleted()
            self.log.release_deleted()
        seen = control.cleaned_offset, self._queue_table.changes
        if seen != self._released and self._releasing is None:
            self._released = seen
            self.by_key.release_deleted()
            self._releasing = self.queues.release_deleted()
        if self._releasing is not None and next(self._releasing, True):
            self._releasing = None

    def warm(self, plan: list[tuple[int, int, int]]) -> Awaitable[None]:
        """Brings parts of files into memory, on a thread."""
        return asyncio.get_running_loop().run_in_executor(self.executor, warm, plan)
