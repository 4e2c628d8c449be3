# cython: wraparound=False, cdivision=True
"""Walks over the records of a mapped CommitLog file and dispatches each: its ConsumeQueue entry, then its keys.

The hot module of dispatch: compiled if there is a compiler (types in the `.pxd`), plain Python otherwise, with the same
result. One call handles a batch. A record costs a check of its lengths, a scan of its properties, one 20-byte entry, and
a hash and an entry for each key. Unusual cases are handled by plain Python functions that are called for
that record only: a new queue, the end of a file, delay topics, multi-dispatch, extended queues.

A record with inconsistent lengths, or with another physical offset, is not dispatched; the caller decides where to
continue. The walk never reads at or beyond `limit`, the end of the published records.
"""

from collections.abc import Callable
from typing import Final

import cython

from headrace.model.java_hash import string_hash, tags_code
from headrace.model.names import SCHEDULE_TOPIC
from headrace.protocol.consume_queue_layout import QUEUE_OFFSET_MAX
from headrace.protocol.record_layout import REASONS
from store.consume_queue.cursor import QueueCursor
from store.consume_queue.writer import ConsumeQueueWriter
from store.index.cursor import IndexCursor
from store.index.writer import IndexWriter

if not cython.compiled:
    from headrace.model.sys_flag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
    from headrace.protocol.ascii_hash import as_int, hash_ascii
    from headrace.protocol.big_endian import address_of, copy_bytes, find_byte, is_equal, load_i32, load_i64
    from headrace.protocol.record_layout import (
        BLANK_RECORD,
        QUEUE_ID_AT,
        QUEUE_OFFSET_AT,
        WHOLE,
        read_property,
        read_record,
    )

IS_COMPILED: Final = bool(cython.compiled)
END: Final = 0
"""`stop` was reached, or so many records were done."""
BLANK: Final = 1
"""The blank record that ends a file is at `position`."""
BAD: Final = 2
"""There is no record at `position`; `bad_reason` says why."""

_END = END
_BLANK = BLANK
_BAD = BAD
_HASH_MAX = 2147483647
_NEVER = 1 << 62
_QUEUE_IDS_KEPT = 4096  # limit: further queues of a topic are found the slow way

PutUnusual = Callable[[bytes, int, int, int, int, int, int, bytes], None]
"""(topic, queue_id, queue_offset, physical_offset, size, store_timestamp, sys_flag, properties): puts a record's entries."""


class _Topic:
    """The walk's cache of a topic: the hash of `topic#`, and the cursors of its queues by queue id.

    Records below `usual_from` go through `put_unusual`: those from before a deletion of the topic, and all of delayed messages.
    """

    def __init__(self, name: bytes, usual_from: int) -> None:
        self.name = name
        self.key_hash = string_hash(name.decode(errors="replace") + "#") & 0xFFFFFFFF
        self.usual_from = usual_from if name != SCHEDULE_TOPIC.encode() else _NEVER
        self.queues: list[QueueCursor | None] = []

    def keep(self, cursor: QueueCursor) -> None:
        """Stores the cursor of a queue."""
        if 0 <= cursor.queue_id < _QUEUE_IDS_KEPT:
            while len(self.queues) <= cursor.queue_id:
                self.queues.append(None)
            self.queues[cursor.queue_id] = cursor


class LogWalk:
    """Dispatches records one after another; `position` is relative to the file and always at the first one not dispatched."""

    def __init__(
        self,
        queue_writer: ConsumeQueueWriter,
        index_writer: IndexWriter | None,
        put_unusual: PutUnusual,
        all_unusual: bool = False,
        multi_dispatch: bool = False,
    ) -> None:
        """Without an `index_writer` nothing is indexed. `all_unusual`: every record's entries go through `put_unusual`.

        `multi_dispatch`: also those of records with the property INNER_MULTI_DISPATCH.
        """
        self._queue_writer = queue_writer
        self._changed = queue_writer.changed
        self._index_writer = index_writer
        self._put_unusual = put_unusual
        self._all_unusual = all_unusual
        self._has_multi_dispatch = multi_dispatch
        self.position = 0
        self.bad_reason = ""
        self.store_timestamp = 0
        """Of the last record that went to the ConsumeQueues, ms; 0: none yet."""
        self.records = 0
        """Dispatched since the start."""
        self.skip({})

    def skip(self, deleted: dict[bytes, int]) -> None:
        """From now on records of these topics go through `put_unusual` where they lie below the topic's physical offset."""
        self._deleted = deleted
        self.forget()

    def forget(self) -> None:
        """Look up all queues and the current IndexFile anew: some have been deleted or closed."""
        self._topics: dict[bytes, _Topic] = {}
        self._topic: _Topic | None = None
        self._index: IndexCursor | None = None

    def walk(self, view: memoryview, file_start: int, position: int, stop: int, limit: int, most: int) -> int:
        """Dispatch the records from `position` up to the first that begins at `stop` or beyond, at most `most` of them.

        Positions count in the file, which begins at physical offset `file_start`. Returns END, BLANK or BAD. What a writer
        raises (StoreFull, OSError) comes through; the record at `position` is then dispatched again by the next call.
        """
        self._view = view
        self._log = address_of(view)
        self.position = position
        answer = _END
        try:
            while answer == _END and self.position < stop and most > 0:
                answer = self._dispatch(file_start, self.position, limit)
                most -= 1
        finally:
            if self._index is not None:
                self._index.settle()
        return answer

    def _dispatch(self, file_start: int, at: int, limit: int) -> int:
        log = self._log
        physical_offset = file_start + at
        parts = read_record(log, at, limit, physical_offset)
        if parts.outcome != WHOLE:
            return _BLANK if parts.outcome == BLANK_RECORD else self._bad(REASONS[parts.outcome])
        queue_offset = load_i64(log, at + QUEUE_OFFSET_AT)
        if queue_offset < 0 or queue_offset > QUEUE_OFFSET_MAX:
            return self._bad("the record's queue offset is out of range")

        size = parts.size
        end = at + size
        sys_flag = parts.sys_flag
        store_timestamp = load_i64(log, parts.store_timestamp_at)
        transaction = sys_flag & TRANSACTION_MASK
        topic = self._find_topic(parts.topic_at, parts.topic_length)
        self._find_properties(parts.properties_at, end)
        if transaction not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            queue_id = load_i32(log, at + QUEUE_ID_AT)
            cursor = None
            if 0 <= queue_id < len(topic.queues) and not self._is_multi_dispatched and not self._all_unusual:
                cursor = topic.queues[queue_id]
            was_changed = True
            if cursor is not None:
                was_changed = cursor.is_changed
            if (
                cursor is not None
                and physical_offset >= topic.usual_from
                and cursor.try_put(physical_offset, size, self._tags_code(), queue_offset)
            ):
                if not was_changed:
                    cursor.is_changed = True
                    self._changed.append(cursor)
            else:
                self._put_unusual(
                    topic.name, queue_id, queue_offset, physical_offset, size, store_timestamp, sys_flag,
                    copy_bytes(log, parts.properties_at, end),
                )  # fmt: skip
                if (
                    cursor is None
                    and not self._is_multi_dispatched
                    and not self._all_unusual
                    and physical_offset >= topic.usual_from
                ):
                    found = self._queue_writer.find(topic.name, queue_id)
                    if found is not None:
                        topic.keep(found)
            self.store_timestamp = store_timestamp
        if self._index_writer is not None:
            if self._index is None:
                self._index = self._index_writer.current
            # A record whose keys are there, dispatched again after a restart, needs no room: no file is begun for it.
            if self._index is None or (
                self._index.count >= self._index.capacity and physical_offset > self._index.end_physical_offset
            ):
                self._index = self._index_writer.with_room()
            if transaction != TRANSACTION_ROLLBACK and physical_offset >= self._index.end_physical_offset:
                self._put_keys(topic, physical_offset, store_timestamp)
        self.position = end
        self.records += 1
        return _END

    def _bad(self, reason: str) -> int:
        self.bad_reason = reason
        return _BAD

    def _find_topic(self, at: int, length: int) -> _Topic:
        topic = self._topic
        if topic is not None and len(topic.name) == length and is_equal(self._log, at, topic.name, 0, length):
            return topic
        name = copy_bytes(self._log, at, at + length)
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = _Topic(name, self._deleted.get(name, 0))
        self._topic = topic
        return topic

    def _find_properties(self, at: int, end: int) -> None:
        """Notes where TAGS, KEYS and UNIQ_KEY are. A pair with an empty name or value does not count, a later one replaces."""
        log = self._log
        self._tags = self._keys = self._unique_key = 0
        self._is_multi_dispatched = False
        while at < end:
            found = read_property(log, at, end)
            if found.name_length == 4:
                if is_equal(log, at, b"TAGS", 0, 4):
                    self._tags = found.value_at
                    self._tags_end = found.end
                elif is_equal(log, at, b"KEYS", 0, 4):
                    self._keys = found.value_at
                    self._keys_end = found.end
            elif found.name_length == 8:
                if is_equal(log, at, b"UNIQ_KEY", 0, 8):
                    self._unique_key = found.value_at
                    self._unique_key_end = found.end
            elif (
                found.name_length == 20
                and self._has_multi_dispatch
                and is_equal(log, at, b"INNER_MULTI_DISPATCH", 0, 20)
            ):
                self._is_multi_dispatched = True
            at = found.end + 1

    def _tags_code(self) -> int:
        if self._tags == 0:
            return 0
        value = hash_ascii(self._log, self._tags, self._tags_end, 0)
        if value < 0:
            return tags_code(copy_bytes(self._log, self._tags, self._tags_end).decode(errors="replace"))
        return as_int(value)

    def _put_keys(self, topic: _Topic, physical_offset: int, store_timestamp: int) -> None:
        assert self._index is not None
        assert self._index_writer is not None
        present = 0
        if physical_offset == self._index.end_physical_offset:
            # Dispatched before, up to some key: after a restart, or when the disk was full. (Or the log's first record.)
            present = self._index_writer.present_keys(physical_offset)
        if self._unique_key > 0:
            if present > 0:
                present -= 1
            else:
                self._put_key(topic, self._unique_key, self._unique_key_end, physical_offset, store_timestamp)
        at = self._keys
        while at > 0 and at < self._keys_end:
            end = find_byte(self._log, 32, at, self._keys_end)
            if end < 0:
                end = self._keys_end
            if end > at:
                if present > 0:
                    present -= 1
                else:
                    self._put_key(topic, at, end, physical_offset, store_timestamp)
            at = end + 1

    def _put_key(self, topic: _Topic, at: int, end: int, physical_offset: int, store_timestamp: int) -> None:
        index = self._index
        assert index is not None
        assert self._index_writer is not None
        if index.count >= index.capacity:
            index = self._index = self._index_writer.with_room()
        value = hash_ascii(self._log, at, end, topic.key_hash)
        if value < 0:
            key = copy_bytes(self._log, at, end)
            value = string_hash((topic.name + b"#" + key).decode(errors="replace"))
        else:
            value = as_int(value)
        if value < 0:
            value = -value
        if value > _HASH_MAX:
            value = 0  # compat: Java's int has no absolute value of -2**31
        index.put(value, physical_offset, store_timestamp)
