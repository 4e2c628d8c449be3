"""Deletes expired ConsumeQueue and IndexFile files, and the queues of deleted topics.

The queues of a deleted topic are dropped before dispatch reads on, so that no record of a later topic of the same name gets into
them. All files are deleted in small steps, so that dispatch continues in between: a machine may have 50,000 queues.
"""

import logging
from collections import Counter
from collections.abc import Iterator

from ipc.control_block import ControlBlock
from ipc.publish.dispatch import DispatchPublisher
from store.consume_queue.writer import ConsumeQueueWriter
from store.deleted_topics import read_deleted_topics
from store.dispatch.unusual_entries import QueueEntries
from store.dispatch.walk import LogWalk
from store.errors import StoreError
from store.fault_point import fault_point
from store.index.writer import IndexWriter
from store.paths import StorePaths

logger = logging.getLogger(__name__)

_QUEUES_A_STEP = 64  # limit: some milliseconds


class Cleaning:
    """Follows `min_offset`, and the requests to remove deleted topics."""

    def __init__(
        self,
        control: ControlBlock,
        publisher: DispatchPublisher,
        paths: StorePaths,
        queues: ConsumeQueueWriter,
        index: IndexWriter | None,
        entries: QueueEntries,
        walk: LogWalk,
    ) -> None:
        self._control = control
        self._publisher = publisher
        self._paths = paths
        self._queues = queues
        self._index = index
        self._entries = entries
        self._walk = walk
        self._noticed_requests = 0
        self._cleaned_offset = 0  # a predecessor may have been killed over it
        self._work: Iterator[None] = iter(())
        self._is_working = False

    def open(self) -> None:
        """Drops the queues left by a predecessor or an earlier appliance. Raises DeletedTopicsUnreadable."""
        self._noticed_requests = self._control.clean_topics_requests
        self._drop_deleted()

    def notice_deletions(self) -> None:
        """Drops the queues of topics that were deleted since the last call. Raises DeletedTopicsUnreadable.

        # order: after the end of the log was read, and before anything up to there is dispatched. A deletion is requested before
        # anything is appended to a new topic of the same name.
        """
        requests = self._control.clean_topics_requests
        if requests != self._noticed_requests:
            self._drop_deleted()
            fault_point("cleaning.queues_dropped")
            self._noticed_requests = requests

    @property
    def is_due(self) -> bool:
        """Whether `step` has something to do."""
        control = self._control
        return (
            self._is_working
            or self._queues.has_dropped
            or control.min_offset > self._cleaned_offset
            or control.clean_topics_requests > control.clean_topics_handled
        )

    def step(self) -> None:
        """Does some of the work and publishes the changed rows. After an OSError or StoreError the next call continues."""
        if not self._is_working:
            self._is_working = True
            self._work = self._clean()
        for _ in range(_QUEUES_A_STEP):
            try:
                next(self._work)
            except StopIteration:
                self._is_working = False
                break
            except (OSError, StoreError):
                self._is_working = False
                raise
        self._queues.publish()

    def _clean(self) -> Iterator[None]:
        self.notice_deletions()
        requests = self._noticed_requests
        yield from self._queues.sweep()
        if requests > self._control.clean_topics_handled:
            self._publisher.clean_topics_handled(requests)
        min_offset = self._control.min_offset
        if min_offset > self._cleaned_offset:
            self._cleaned_offset = min_offset
            yield from self._queues.clean_expired(min_offset)
            self._entries.clean_expired()
            if self._index is not None:
                yield from self._index.clean_expired(min_offset)
            # order: after the files are gone, for those who still map them.
            self._publisher.cleaned(min_offset)

    def _drop_deleted(self) -> None:
        deleted = read_deleted_topics(self._paths)
        self._walk.skip(deleted)
        self._entries.deleted = deleted
        dropped: Counter[bytes] = Counter()
        for cursor in self._queues.queues():
            below = deleted.get(cursor.topic)
            if below is not None and cursor.max_physical_offset <= below:
                self._queues.drop(cursor)
                self._entries.forget(cursor.topic, cursor.queue_id)
                dropped[cursor.topic] += 1
        for topic, count in dropped.items():
            logger.info("deleted topic's queues removed topic=%s queues=%d", topic.decode(errors="replace"), count)
