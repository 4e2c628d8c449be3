"""The reading end of the store: messages by queue, by key, by time and by place, and the threads that read what is no longer in memory."""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psutil

from broker.parts.settings import Settings
from ipc.control_block import ControlBlock
from ipc.queue_table import QueueTable
from store.commit_log.reader import CommitLogReader
from store.consume_queue.reader import ConsumeQueueReader
from store.query.by_key import KeyQuery
from store.query.by_offset import view_by_offset
from store.query.by_time import TimeQuery
from store.query.filtered import FilteredGetter
from store.query.get import MessageGetter, warm
from store.query.judged import JudgedGetter
from store.query.sources import PullSources


class ReadingEnd:
    """Looks no further than what others have published."""

    def __init__(self, settings: Settings, control: ControlBlock, queue_table: QueueTable) -> None:
        config, paths = settings.store, settings.paths
        self._control = control
        self.log = CommitLogReader(paths, config, control)
        self.queues = ConsumeQueueReader(paths, config, queue_table)
        sources = PullSources(self.queues, self.log, control, config, psutil.virtual_memory().total)
        self.getter = MessageGetter(sources)
        self.filtered = FilteredGetter(sources, paths)
        self.judged = JudgedGetter(sources) if settings.filter_workers else None
        self.by_time = TimeQuery(self.queues, self.log)
        self.by_key = KeyQuery(paths, config, self.log)
        self.view = partial(view_by_offset, self.log)
        self.executor = ThreadPoolExecutor(4, "cold-read")

    def earliest_time(self) -> int:
        """Store time of the log's first message, -1 without one."""
        first = self._control.min_offset
        return self.log.store_timestamp_at(first, self.log.record_size_at(first) or 0)

    def warm(self, plan: list[tuple[int, int, int]]) -> Awaitable[None]:
        """Brings parts of files into memory, on a thread."""
        return asyncio.get_running_loop().run_in_executor(self.executor, warm, plan)
