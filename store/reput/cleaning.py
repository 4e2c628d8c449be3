"""Deletes what dispatch owns and nobody needs: files that point below `min_offset`, and queues of topics that are gone.

In small steps, so that dispatch goes on in between: a machine may have 50,000 queues.
"""

import logging
from collections.abc import Iterator

from headrace.errors import HeadraceError
from headrace.model.names import LMQ_PREFIX, SCHEDULE_TOPIC, TRANSACTION_OP_HALF_TOPIC
from headrace.protocol import fastjson
from ipc.control_block import ControlBlock
from ipc.publish.dispatch import DispatchPublisher
from store.consume_queue.cursor import QueueCursor
from store.consume_queue.writer import ConsumeQueueWriter
from store.index.writer import IndexWriter
from store.paths import StorePaths
from store.reput.queue_entry import QueueEntries
from store.reput.walk import LogWalk

_log = logging.getLogger(__name__)

_QUEUES_A_STEP = 64  # limit: some milliseconds

_KEPT_TOPICS = (SCHEDULE_TOPIC.encode(), TRANSACTION_OP_HALF_TOPIC.encode())
_LMQ_PREFIX = LMQ_PREFIX.encode()


class Cleaning:
    """Follows `min_offset`, and the requests to clean unused topics."""

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
        self._topics_file = paths.config_file("topics.json")
        self._queues = queues
        self._index = index
        self._entries = entries
        self._walk = walk
        self._cleaned_offset = 0  # a predecessor may have been killed over it
        self._work: Iterator[None] = iter(())
        self._is_working = False

    @property
    def is_due(self) -> bool:
        """Whether `step` has something to do."""
        control = self._control
        return (
            self._is_working
            or control.min_offset > self._cleaned_offset
            or control.clean_topics_requests > control.clean_topics_handled
        )

    def step(self) -> None:
        """Some of the work. Publishes the rows it moves; OSError comes through, and the rest is done another time."""
        if not self._is_working:
            self._is_working = True
            self._work = self._clean()
        for _ in range(_QUEUES_A_STEP):
            try:
                next(self._work)
            except StopIteration:
                self._is_working = False
                break
            except OSError:
                self._is_working = False
                raise
        self._queues.publish()

    def _clean(self) -> Iterator[None]:
        requests = self._control.clean_topics_requests
        if requests > self._control.clean_topics_handled:
            yield from self._destroy_unused()
            self._publisher.clean_topics_handled(requests)
        min_offset = self._control.min_offset
        if min_offset > self._cleaned_offset:
            self._cleaned_offset = min_offset
            yield from self._queues.clean_expired(min_offset)
            self._entries.clean_expired()
            if self._index is not None:
                yield from self._index.clean_expired(min_offset)

    def _destroy_unused(self) -> Iterator[None]:
        known = self._read_topics()
        if not known:
            _log.error("left unused topics alone: %s names no topic", self._topics_file)
            return
        for cursor in self._queues.queues():
            if _may_go(cursor) and cursor.topic not in known:
                self._queues.destroy(cursor)
                self._entries.forget(cursor.topic, cursor.queue_id)
                self._walk.forget()
                _log.info(
                    "deleted a queue of a topic that is gone: topic=%s queue_id=%d",
                    cursor.topic.decode(errors="replace"), cursor.queue_id,
                )  # fmt: skip
            yield

    def _read_topics(self) -> set[bytes]:
        try:
            tables = fastjson.loads(self._topics_file.read_bytes())
            return {str(name).encode() for name in tables["topicConfigTable"]}
        except (OSError, HeadraceError, KeyError, TypeError) as error:
            _log.error("could not read the topics: %s", error)
            return set()


def _may_go(cursor: QueueCursor) -> bool:
    """compat: light queues and two system topics have no entry among the topics, or need none."""
    return cursor.topic not in _KEPT_TOPICS and not cursor.topic.startswith(_LMQ_PREFIX)
