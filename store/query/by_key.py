"""Messages of a topic with a key, through the IndexFiles.

Stricter than RocketMQ: a message counts only if its record has the topic and the key, so that keys
with the same hash do not displace each other in the response. RocketMQ's clients discard such messages anyway.
"""

from msgspec import Struct

from store.commit_log.reader import CommitLogReader
from store.config import StoreConfig
from store.errors import CorruptRecord
from store.index.reader import IndexReader
from store.paths import StorePaths
from store.query.key_match import record_with_key
from store.query.unreadable_records import NO_QUEUE, UnreadableRecords


class KeyQueryResult(Struct, frozen=True):
    """Complete records one after another, oldest first, and the last update of the index (ms; physical offset)."""

    body: bytes
    last_update_timestamp: int
    last_update_physical_offset: int


class KeyQuery:
    """Queries by key. One for each process; not for several threads."""

    def __init__(
        self, paths: StorePaths, config: StoreConfig, log: CommitLogReader, unreadable: UnreadableRecords | None = None
    ) -> None:
        self._config = config
        self._index = IndexReader(paths, config)
        self._log = log
        self._unreadable = unreadable if unreadable is not None else UnreadableRecords()

    def query(self, topic: str, key: str, most: int, begin_ms: int, end_ms: int) -> KeyQueryResult:
        """At most `most` messages (and `maxMsgsNumBatch`) stored between the two times, the newest if there are more.

        The index knows times in whole seconds, rounded down.
        """
        most = min(most, self._config.max_msgs_num_batch)
        self._index.refresh()
        timestamp, physical_offset = self._index.last_update()
        found: dict[int, bytes] = {}
        if most > 0:
            for offset in self._index.find(topic, key, begin_ms, end_ms):
                if offset not in found:
                    record = self._read(offset, topic, key)
                    if record is not None:
                        found[offset] = record
                        if len(found) >= most:
                            break
        return KeyQueryResult(b"".join(found[offset] for offset in sorted(found)), timestamp, physical_offset)

    def _read(self, offset: int, topic: str, key: str) -> bytes | None:
        data = self._log.read_on(offset)
        if data is None:
            return None
        try:
            return record_with_key(data, offset, topic, key)
        except CorruptRecord as error:
            self._unreadable.met(topic, NO_QUEUE, NO_QUEUE, offset, error.reason)
            return None

    def release_deleted(self) -> None:
        """Releases IndexFiles that have been deleted."""
        self._index.release_deleted()

    def close(self) -> None:
        """Releases all mappings."""
        self._index.close()
