# cython: wraparound=False, cdivision=True
"""Agreement: walks over the records of the log with which their queue's entry and the entries of their keys agree.

Most of a store does, and `verify` is to look closely only at the rest: this is a hot module (types in the `.pxd`). It reports nothing. It stops
before a record that is not whole, that is not stored as RocketMQ's dispatch would store it, or whose kind is seldom: delayed, naming further queues, with
text that is not ASCII. What is wrong with such a record, if anything, is for QueueCheck and IndexCheck to say, which judge it alone.
"""

import cython

from headrace.model.names import SCHEDULE_TOPIC
from headrace.protocol.crc32 import find_crc_function
from store.inspect.key_entries import KeyEntries
from store.inspect.queue_entries import QueueEntries

if not cython.compiled:
    from headrace.model.sys_flag import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
    from headrace.protocol.ascii_hash import as_int, hash_ascii
    from headrace.protocol.big_endian import address_of, copy_bytes, find_byte, is_equal, load_i32, load_i64
    from headrace.protocol.crc32 import crc_of, take_crc_function
    from headrace.protocol.record_layout import (
        BODY_CRC_AT,
        BODY_CRC_MASK,
        FLAG_AT,
        QUEUE_ID_AT,
        QUEUE_OFFSET_AT,
        WHOLE,
        RecordParts,
        read_property,
        read_record,
    )

take_crc_function(find_crc_function())

_HASH_MAX = 2147483647


class Agreement:
    """Shares its QueueEntries and KeyEntries with the checks: it counts the entries that it came to, and moves on among the keys."""

    def __init__(
        self,
        queues: dict[tuple[str, int], QueueEntries],
        keys: KeyEntries,
        first_key_offset: int,
        last_key_offset: int,
    ) -> None:
        """Records between the two offsets have all their keys in the IndexFiles; those elsewhere may have some."""
        self._queues = {
            queue_id.to_bytes(4, "big") + topic.encode(): entries
            for (topic, queue_id), entries in queues.items()
            if topic.isascii() and topic != SCHEDULE_TOPIC and queue_id <= _HASH_MAX
        }
        self._keys = keys
        self._first_key_offset = first_key_offset
        self._last_key_offset = last_key_offset
        self.last = -1
        """Position of the last record that the last `walk` passed; -1 without one."""

    def walk(self, view: memoryview, position: int, stop: int, limit: int, file_start: int) -> int:
        """The position in the file `view` of the first record, from `position` on, that begins at `stop` or beyond or is to be looked at.

        The file begins at physical offset `file_start`. Nothing at or beyond `limit` is read.
        """
        self._log = address_of(view)
        self.last = -1
        limit = min(limit, len(view))
        while position < stop:
            physical_offset = file_start + position
            parts = read_record(self._log, position, limit, physical_offset)
            if parts.outcome != WHOLE or parts.sys_flag & INNER_BATCH:
                break
            if parts.body_length > 0 and (
                crc_of(self._log, parts.body_at, parts.body_length) & BODY_CRC_MASK
                != load_i32(self._log, position + BODY_CRC_AT)
            ):
                break
            if not self._find_properties(parts.properties_at, position + parts.size):
                break
            queue = None
            if parts.sys_flag & TRANSACTION_MASK not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
                queue = self._find_queue(parts, position, physical_offset)
                if queue is None:
                    break
            if not self._take_keys(parts, physical_offset):
                break
            if queue is not None:
                queue.matched += 1
            self.last = position
            position += parts.size
        return position

    def _find_properties(self, at: int, end: int) -> bool:
        """Notes where TAGS, KEYS and UNIQ_KEY are; False for a record that names further queues."""
        log = self._log
        self._tags = self._key_words = self._unique_key = 0
        while at < end:
            found = read_property(log, at, end)
            if found.name_length == 4:
                if is_equal(log, at, b"TAGS", 0, 4):
                    self._tags, self._tags_end = found.value_at, found.end
                elif is_equal(log, at, b"KEYS", 0, 4):
                    self._key_words, self._key_words_end = found.value_at, found.end
            elif found.name_length == 8 and is_equal(log, at, b"UNIQ_KEY", 0, 8):
                self._unique_key, self._unique_key_end = found.value_at, found.end
            elif found.name_length == 20 and is_equal(log, at, b"INNER_MULTI_DISPATCH", 0, 20):
                return False
            at = found.end + 1
        return True

    def _find_queue(self, parts: "RecordParts", position: int, physical_offset: int) -> QueueEntries | None:
        """The queue whose entry agrees with the record; None if there is none."""
        log = self._log
        queue = self._queues.get(
            copy_bytes(log, position + QUEUE_ID_AT, position + FLAG_AT)
            + copy_bytes(log, parts.topic_at, parts.topic_at + parts.topic_length)
        )
        if queue is None or not queue.read(load_i64(log, position + QUEUE_OFFSET_AT)):
            return None
        tags_code = 0
        if self._tags > 0:
            tags_code = hash_ascii(log, self._tags, self._tags_end, 0)
            if tags_code < 0:
                return None
            tags_code = as_int(tags_code)
        if queue.physical_offset != physical_offset or queue.size != parts.size or queue.tags_code != tags_code:
            return None
        return queue

    def _take_keys(self, parts: "RecordParts", physical_offset: int) -> bool:
        """Moves on behind the entries of the record's keys, if they are those that dispatch writes, in its order."""
        keys = self._keys
        if not keys.is_there or keys.physical_offset > physical_offset:
            return (
                (self._unique_key == 0 and self._key_words == 0)
                or parts.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
                or not self._first_key_offset < physical_offset < self._last_key_offset
            )
        file, number = keys.file, keys.number
        if self._are_keys(parts, physical_offset):
            return True
        keys.go_to(file, number)
        return False

    def _are_keys(self, parts: "RecordParts", physical_offset: int) -> bool:
        keys = self._keys
        store_timestamp = load_i64(self._log, parts.store_timestamp_at)
        if parts.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
            if self._unique_key > 0 and not self._is_key(
                parts, self._unique_key, self._unique_key_end, physical_offset, store_timestamp
            ):
                return False
            at = self._key_words
            while at > 0 and at < self._key_words_end:
                end = find_byte(self._log, 32, at, self._key_words_end)
                if end < 0:
                    end = self._key_words_end
                if end > at and not self._is_key(parts, at, end, physical_offset, store_timestamp):
                    return False
                at = end + 1
        return not keys.is_there or keys.physical_offset > physical_offset

    def _is_key(self, parts: "RecordParts", at: int, end: int, physical_offset: int, store_timestamp: int) -> bool:
        """Whether the next entry is that of a key; moves on behind it if so."""
        keys = self._keys
        if not keys.is_there or keys.physical_offset != physical_offset or not keys.is_time_right(store_timestamp):
            return False
        value = hash_ascii(self._log, parts.topic_at, parts.topic_at + parts.topic_length, 0)
        if value >= 0:
            value = hash_ascii(self._log, at, end, (value * 31 + 35) & 0xFFFFFFFF)  # 35: the # between them
        if value < 0:
            return False
        value = as_int(value)
        if value < 0:
            value = -value
        if value > _HASH_MAX:
            value = 0  # compat: Java's int has no absolute value of -2**31
        if value != keys.key_hash:
            return False
        keys.go_to(keys.file, keys.number + 1)
        return True
