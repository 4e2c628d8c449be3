"""TopicDeletion: deletes topics permanently, in a safe order of files, queue offsets and dispatch."""

import os
from collections.abc import Callable, Iterable

from broker.topics.deleted_topics import DeletedTopicTable
from broker.topics.topics import TopicTable
from headrace.model.names import LMQ_PREFIX, SCHEDULE_TOPIC, TRANSACTION_OP_HALF_TOPIC
from store.fault_point import fault_point

_KEPT_TOPICS = (SCHEDULE_TOPIC, TRANSACTION_OP_HALF_TOPIC)


class TopicDeletion:
    """`log_end()` publishes appended messages and returns the end of the log; `queued_topics()` lists topics that have a queue;
    `forget(topic)` makes the topic's next message begin at queue offset 0, and drops the groups' offsets.
    """

    def __init__(
        self,
        topics: TopicTable,
        deleted: DeletedTopicTable,
        log_end: Callable[[], int],
        queued_topics: Callable[[], Iterable[bytes]],
        forget: Callable[[bytes], object],
    ) -> None:
        self._topics = topics
        self._deleted = deleted
        self._log_end = log_end
        self._queued_topics = queued_topics
        self._forget = forget

    def delete(self, topic: str) -> bool:
        """Deletes the topic, and the queues of all topics that do not exist. Returns whether the topic existed. Raises OSError.

        It is durable when this returns. Dispatch removes the queues afterwards.
        """
        # A topic may have records that are not dispatched yet, and so no queue.
        existed = self._topics.find(topic) is not None
        self._delete(self._unused() | ({topic} if existed else set()), lambda: self._topics.delete(topic))
        return existed

    def delete_unused(self) -> None:
        """Deletes the queues of all topics that do not exist. Raises OSError."""
        self._delete(self._unused(), lambda: None)

    def _delete(self, topics: set[str], remove: Callable[[], object]) -> None:
        if not topics:
            return
        self._deleted.settle()
        self._deleted.mark(topics, self._log_end())
        fault_point("topic_deletion.marked")
        remove()
        for topic in topics:
            self._forget(os.fsencode(topic))
        fault_point("topic_deletion.removed")
        self._deleted.settle()
        fault_point("topic_deletion.settled")

    def _unused(self) -> set[str]:
        """compat: light queues and two system topics need no entry in the table of topics."""
        known = self._topics.all()
        queued = {os.fsdecode(topic) for topic in self._queued_topics()}
        return {
            topic
            for topic in queued
            if topic not in known and topic not in _KEPT_TOPICS and not topic.startswith(LMQ_PREFIX)
        }
