"""DeletedTopicTable: the deleted topics and the end of the log at that time, stored in `config/deletedTopics.json`.

The log keeps the records of a deleted topic. This file distinguishes them from those of a later topic of the same name (`store.deleted_topics`).
Two files change when a topic is deleted, and a kill may happen between any two steps:

    1  deletedTopics.json    the topic is in `beingDeleted`
    2  topics.json           the topic is removed: from here on it is deleted
    3  deletedTopics.json    the topic is in `deletedTopics`: dispatch, recovery and verify obey

`settle` decides by topics.json whether a deletion in `beingDeleted` has happened. It runs at the start, and before any topic is created.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping

from broker.json_file import JsonFile
from broker.topics.topics import TopicTable
from headrace.errors import RemoteProtocolError
from store.deleted_topics import DeletedTopics

logger = logging.getLogger(__name__)


class DeletedTopicTable:
    """Used only in the broker's event loop."""

    def __init__(self, json_file: JsonFile, topics: TopicTable) -> None:
        """Reads the file. Raises ConfigFileUnreadable."""
        self._file = json_file
        self._topics = topics
        self._stored = json_file.load(_decode) or DeletedTopics()
        self._listeners: list[Callable[[], object]] = []
        topics.before_creating(self.settle)

    def on_change(self, listener: Callable[[], object]) -> None:
        """Calls `listener` when deletions have been stored: dispatch must read the file before it sees another record."""
        self._listeners.append(listener)

    def offset_of(self, topic: bytes) -> int:
        """Records of the topic below this physical offset belong to no queue; 0: it was never deleted."""
        return self._stored.deleted.get(topic.decode(errors="surrogateescape"), 0)

    def mark(self, topics: Iterable[str], offset: int) -> None:
        """Records that these topics will be deleted, and the end of the log. Raises OSError; nothing has then changed."""
        self._store(DeletedTopics(self._stored.deleted, dict.fromkeys(topics, offset)))

    def settle(self) -> None:
        """Confirms each recorded deletion whose topic no longer exists, and drops the others. Raises OSError; it must then be repeated."""
        noted = self._stored.being_deleted
        if not noted:
            return
        gone = {topic: offset for topic, offset in noted.items() if self._topics.find(topic) is None}
        self._store(DeletedTopics({**self._stored.deleted, **gone}))
        for topic, offset in gone.items():
            logger.info("topic deletion recorded topic=%s log_end=%d", topic, offset)
        self._tell()

    def recover(self, min_offset: int, wrote_offset: int) -> None:
        """Makes the file consistent with the log at the start, before anything is appended. Raises OSError.

        After a power cut the log may end before a deletion's offset. Records appended there belong to the queues.
        Deletions below `min_offset` are removed, because their records no longer exist.
        """
        self.settle()
        deleted = self._stored.deleted
        kept = {topic: min(offset, wrote_offset) for topic, offset in deleted.items() if offset > min_offset}
        if kept != deleted:
            self._store(DeletedTopics(kept))
        # order: a predecessor may have been killed between storing a deletion and notifying dispatch.
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def _store(self, topics: DeletedTopics) -> None:
        # order: the file first. If it cannot be written nothing has changed.
        self._file.save(_text(topics.deleted, topics.being_deleted))
        self._stored = topics


def _text(deleted: Mapping[str, int], being_deleted: Mapping[str, int]) -> str:
    return json.dumps({"deletedTopics": dict(deleted), "beingDeleted": dict(being_deleted)}, indent="\t")


def _decode(data: bytes) -> DeletedTopics:
    try:
        return DeletedTopics.decode(data)
    except ValueError as error:
        raise RemoteProtocolError(str(error)) from error
