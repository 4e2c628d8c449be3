# cython: wraparound=False, cdivision=True

"""Decodes records of the CommitLog into the memory of Arrow columns, one pass over the bytes.

The hot module of the exporter: compiled if there is a compiler (types in the `.pxd`), plain Python otherwise, with the same
result. One call of `decode` reads a range of log in memory and fills buffers, from which `arrow_batches` creates arrays. A record costs its numbers, one copy of each of its texts, and a CRC of its body.

A record is accepted if its lengths add up to its size and it contains its own physical offset. If its body then does not match its CRC, or cannot be
decompressed, or its times are invalid, it is added to `damaged`, and the next one begins after its size. Anything else ends the call: the
caller decides where to continue.

Buffers have room for the whole range from the start, so room is not checked, except for data that may grow: decompressed bodies
(`_grow_bodies`) and invalid UTF-8 (`_TEXT_SLACK`).
"""

from collections.abc import Callable
from typing import Final

import cython
import pyarrow as pa

from headrace.errors import RemoteProtocolError
from headrace.model.host import decode_host, format_host
from headrace.protocol.compression import decompress
from headrace.protocol.crc32 import find_crc_function
from headrace.protocol.record_layout import REASONS
from spark_exporter.reading.property_columns import PropertyColumns

if not cython.compiled:
    from headrace.model.host import V4_SIZE
    from headrace.model.sys_flag import COMPRESSED
    from headrace.protocol.big_endian import address_of, copy_bytes, is_equal, load_i32, load_i64, store_bytes
    from headrace.protocol.crc32 import crc_of, take_crc_function
    from headrace.protocol.record_layout import (
        BLANK_RECORD,
        BODY_CRC_AT,
        BODY_CRC_MASK,
        BORN_HOST_AT,
        BORN_TIMESTAMP_AT,
        END_FILE_MIN_BLANK_LENGTH,
        FLAG_AT,
        NO_ROOM,
        PHYSICAL_OFFSET_AT,
        PHYSICAL_OFFSET_END,
        QUEUE_ID_AT,
        QUEUE_OFFSET_AT,
        RECORD_OVERHEAD,
        TAIL_PREPARED_OFFSET_AT,
        TAIL_RECONSUME_TIMES_AT,
        TOTAL_SIZE_AT,
        WHOLE,
        WRONG_PLACE,
        read_record,
    )
    from spark_exporter.reading.memory import put_bit, put_hex, put_int, put_ipv4, put_long

take_crc_function(find_crc_function())

IS_COMPILED: Final = bool(cython.compiled)

END: Final = 0
"""The first record at or beyond `stop` is at `position` (or the log ends there)."""
MORE: Final = 1
"""The record at `position` extends beyond the range; `needed` is its size, 8 if unknown."""
BLANK: Final = 2
"""The blank record that ends the file is at `position`."""
BAD: Final = 3
"""There is no record at `position`; `reason` says why."""
FULL: Final = 4
"""The batch has reached its maximum size; continue at `position`."""

HOST_COLUMNS: Final = frozenset({"born_host", "store_host", "offset_msg_id"})
"""The columns with hosts."""

_END = END
_MORE = MORE
_BLANK = BLANK
_BAD = BAD
_FULL = FULL
_LARGEST_RECORD = 64 << 20  # limit: sixteen times the default maximum of brokers; it is read completely into memory
_LONGEST_HOST = 53  # eight groups in brackets, a colon, the port with its sign
_PORT_SIZE = 4
_LONGEST_ID = 56  # hexadecimal digits of an IPv6 host and an offset
_TEXT_SLACK = 1 << 18  # limit: two property strings of bad bytes, each of which becomes three
_SLOTS = 1024  # limit: a power of two
_MOST_HOSTS = 1 << 14  # limit: cached IPv6 hosts; then the cache is cleared
_FIRST_MS = -62135596800000  # 0001-01-01
_LAST_MS = 253402300799999  # 9999-12-31
_EVER = 0x7FFFFFFFFFFFFFFF
_IMPOSSIBLE_SIZE = "the record's total size is out of range"


class _Topic:
    """A known topic: its text in UTF-8 and whether its records are wanted."""

    def __init__(self, name: bytes, text: bytes, is_wanted: bool) -> None:
        self.name = name
        self.text = text
        self.is_wanted = is_wanted


def _is_free(memory: bytearray) -> bool:
    """Whether no array uses the buffer: Python does not resize exported buffers."""
    try:
        del memory[len(memory) - 1 :]
    except BufferError:
        return False
    memory.append(0)
    return True


class RecordColumns:
    """Decodes one stretch after the other. What `decode` leaves:

    `rows` in the buffers; `position` where to go on; `damaged`: (physical offset, size, reason) of each record that is not among the rows;
    `records`: all that were walked over, wanted or not; `needed`, `reason`: see MORE and BAD; `last_store_timestamp` in ms and
    `last_physical_offset`, of the last good record, wanted or not.
    """

    def __init__(
        self,
        is_wanted: Callable[[str], bool],
        first_ms: int = _FIRST_MS,
        end_ms: int = _EVER,
        with_body: bool = True,
        with_properties: bool = True,
        with_hosts: bool = True,
        inflate: bool = True,
        all_properties: bool = False,
        most_body_bytes: int = 32 << 20,
        room_bytes: int = 0,
    ) -> None:
        """`is_wanted(topic)` is called once per topic. Records with first_ms <= store timestamp < end_ms are wanted.

        Columns of bodies, of properties, or with hosts in them (`HOST_COLUMNS`) need not be made: nothing is done for them then. `inflate`: bodies
        are decompressed. `all_properties`: the map also has UNIQ_KEY, KEYS and TAGS. A batch ends after the record with which its bodies
        reach `most_body_bytes`. `room_bytes`: how long a stretch there is room for from the start; longer ones make more.
        """
        self._is_wanted = is_wanted
        self._first_ms = first_ms
        self._end_ms = end_ms
        self._with_body = with_body
        self._with_hosts = with_hosts
        self._inflate = inflate
        self._most_body_bytes = most_body_bytes
        self._topics: dict[bytes, _Topic] = {}
        # The last topic with the same hash bits, found without creating an object for its name.
        self._topic_slots: list[_Topic | None] = [None] * _SLOTS
        self._hosts: dict[bytes, bytes] = {}
        self._body_memories: list[bytearray] = []
        self.position = 0
        self.rows = 0
        self.records = 0
        self.needed = 0
        self.reason = ""
        self.last_store_timestamp = 0
        self.last_physical_offset = -1
        self.damaged: list[tuple[int, int, str]] = []
        self.buffers: dict[str, pa.Buffer] = {}
        """Of columns by name, with what is in them of the last stretch at their begin; `arrow_batches` knows how much that is."""
        self.properties = PropertyColumns(self.buffers, all_properties) if with_properties else None
        self._span = -1
        self._prepare(room_bytes)

    def decode(self, view: memoryview, view_offset: int, position: int, stop: int, file_end: int) -> int:
        """Decode the records that begin from `position` on before `stop`. Both are places in `view`, whose first byte is at physical offset
        `view_offset`. `file_end` is the physical offset where the file ends, beyond which no record reaches.

        Returns END, MORE, BLANK, BAD or FULL. What was in the buffers is gone.
        """
        self._begin(view, position)
        answer = _END
        while answer == _END and self.position < stop:
            answer = self._decode_one(self.position, view_offset, file_end)
        return answer

    def decode_gathered(self, view: memoryview, position: int, places: memoryview, number: int, file_end: int) -> int:
        """Decode records that lie one behind the other in `view` from `position` to its end, but elsewhere in the log: the first of them at physical
        offset `places[number]`, the next at `places[number + 1]`. `records` says how many of them are done.

        Returns END, or FULL; anything else means that these are not the records they have been.
        """
        self._begin(view, position)
        answer = _END
        while answer == _END and self.position < self._limit:
            place: int = places[number + self.records]
            answer = self._decode_one(self.position, place - self.position, file_end)
        return answer

    def _begin(self, view: memoryview, position: int) -> None:
        self._view = view
        self._log = address_of(view)
        self._limit = len(view)
        self.position = position
        self.damaged = []
        self._prepare(self._limit - position)

    def _prepare(self, span: int) -> None:
        """Prepares empty buffers for the records of a range of `span` bytes."""
        if span > self._span:
            self._make_room(span)
        self.rows = 0
        self.records = 0
        self._slack = _TEXT_SLACK
        self._topic_end = self._offset_id_end = self._born_host_end = self._store_host_end = self._body_end = 0
        # Bodies are most of the log: they are copied but once, into memory that the batch then has.
        self._body_room = self._span if self._with_body else 0
        self._body_data = self._take_body_memory()
        rows = span // RECORD_OVERHEAD + 2
        self._born_valid = self._new_bits("born_timestamp", rows)
        if self.properties is not None:
            self.properties.begin(rows)

    def _make_room(self, span: int) -> None:
        """Buffers that are used again with each stretch. What is in them is copied out: it is much less than their size."""
        self._span = span
        self._body_memories = []
        rows = span // RECORD_OVERHEAD + 2
        text = span + _TEXT_SLACK
        self._queue_id = self._new("queue_id", 4 * rows)
        self._store_size = self._new("store_size", 4 * rows)
        self._reconsume_times = self._new("reconsume_times", 4 * rows)
        self._flag = self._new("flag", 4 * rows)
        self._sys_flag = self._new("sys_flag", 4 * rows)
        self._body_crc = self._new("body_crc", 4 * rows)
        self._queue_offset = self._new("queue_offset", 8 * rows)
        self._commit_log_offset = self._new("commit_log_offset", 8 * rows)
        self._born_timestamp = self._new("born_timestamp", 8 * rows)
        self._store_timestamp = self._new("store_timestamp", 8 * rows)
        self._prepared_offset = self._new("prepared_transaction_offset", 8 * rows)
        self._topic_ends = self._new("topic.ends", 4 * rows + 4)
        self._topic_text = self._new("topic.text", text)
        self._offset_id_ends = self._new("offset_msg_id.ends", 4 * rows + 4)
        self._offset_id_text = self._new("offset_msg_id.text", _LONGEST_ID * rows)
        self._born_host_ends = self._new("born_host.ends", 4 * rows + 4)
        self._born_host_text = self._new("born_host.text", _LONGEST_HOST * rows)
        self._store_host_ends = self._new("store_host.ends", 4 * rows + 4)
        self._store_host_text = self._new("store_host.text", _LONGEST_HOST * rows)
        self._body_ends = self._new("body.ends", 4 * rows + 4)
        if self.properties is not None:
            self.properties.make_room(rows, text)
        put_int(self._topic_ends, 0, 0)
        put_int(self._offset_id_ends, 0, 0)
        put_int(self._born_host_ends, 0, 0)
        put_int(self._store_host_ends, 0, 0)
        put_int(self._body_ends, 0, 0)

    def _new(self, name: str, size: int) -> memoryview:
        # Not zeroed: unwritten pages cost nothing.
        buffer = pa.allocate_buffer(size + 8)
        self.buffers[name] = buffer
        return address_of(memoryview(buffer).cast("B"))

    def _take_body_memory(self) -> memoryview:
        """Memory that had an earlier batch's bodies, if that is gone: the kernel zeroes what is fresh."""
        self.buffers.pop("body.text", None)
        for known in self._body_memories:
            if _is_free(known):
                memory = known
                break
        else:
            memory = bytearray(self._body_room + 8)
            self._body_memories.append(memory)
        self.buffers["body.text"] = pa.py_buffer(memory)
        return address_of(memoryview(memory))

    def _new_bits(self, name: str, rows: int) -> memoryview:
        bits = bytearray(rows // 8 + 8)
        self.buffers[name + ".valid"] = pa.py_buffer(bits)
        return address_of(memoryview(bits))

    def _decode_one(self, at: int, view_offset: int, file_end: int) -> int:
        log = self._log
        limit = self._limit
        physical_offset = view_offset + at
        if file_end - physical_offset < END_FILE_MIN_BLANK_LENGTH:
            return self._bad(REASONS[NO_ROOM])
        parts = read_record(log, at, limit, physical_offset)
        if parts.outcome == NO_ROOM:
            return self._look_beyond(at, physical_offset, file_end)
        if parts.outcome == BLANK_RECORD:
            return _BLANK
        if parts.outcome != WHOLE:
            return self._bad(REASONS[parts.outcome])
        if parts.size > _LARGEST_RECORD or parts.size > file_end - physical_offset:
            return self._bad(_IMPOSSIBLE_SIZE)
        end = at + parts.size
        body_length = parts.body_length

        # A record: from here on it is walked over, whatever is in it.
        if self._body_end >= self._most_body_bytes or self._slack < 3 * (parts.properties_length + parts.topic_length):
            return _FULL
        store_ms = load_i64(log, parts.store_timestamp_at)
        if store_ms < _FIRST_MS or store_ms > _LAST_MS:
            return self._damage(physical_offset, parts.size, "its store timestamp is out of range")
        topic = self._find_topic(parts.topic_at, parts.topic_length)
        if not topic.is_wanted or store_ms < self._first_ms or store_ms >= self._end_ms:
            self.last_store_timestamp = store_ms
            self.last_physical_offset = physical_offset
            self.records += 1
            self.position = end
            return _END
        body_crc = load_i32(log, at + BODY_CRC_AT)
        if body_length > 0:
            crc = crc_of(log, parts.body_at, body_length)
            if crc & BODY_CRC_MASK != body_crc:
                return self._damage(physical_offset, parts.size, "the body does not match its CRC")
        if self._with_body:
            if parts.sys_flag & COMPRESSED and self._inflate and body_length > 0:
                try:
                    plain = decompress(copy_bytes(log, parts.body_at, parts.body_at + body_length), parts.sys_flag)
                except RemoteProtocolError as error:
                    return self._damage(physical_offset, parts.size, str(error))
                if self._body_end + len(plain) + (limit - end) > self._body_room:
                    self._grow_bodies(self._body_end + len(plain) + (limit - end))
                store_bytes(self._body_data, self._body_end, plain, 0, len(plain))
                self._body_end += len(plain)
            else:
                store_bytes(self._body_data, self._body_end, log, parts.body_at, body_length)
                self._body_end += body_length

        row = self.rows
        self.last_store_timestamp = store_ms
        self.last_physical_offset = physical_offset
        self.records += 1
        self.rows = row + 1
        self.position = end
        put_int(self._store_size, row, parts.size)
        put_int(self._body_crc, row, body_crc)
        put_int(self._queue_id, row, load_i32(log, at + QUEUE_ID_AT))
        put_int(self._flag, row, load_i32(log, at + FLAG_AT))
        put_long(self._queue_offset, row, load_i64(log, at + QUEUE_OFFSET_AT))
        put_long(self._commit_log_offset, row, physical_offset)
        put_int(self._sys_flag, row, parts.sys_flag)
        born_ms = load_i64(log, at + BORN_TIMESTAMP_AT)
        if born_ms >= _FIRST_MS and born_ms <= _LAST_MS:
            put_long(self._born_timestamp, row, born_ms * 1000)
            put_bit(self._born_valid, row)
        else:
            put_long(self._born_timestamp, row, 0)
        put_long(self._store_timestamp, row, store_ms * 1000)
        put_int(self._reconsume_times, row, load_i32(log, parts.tail_at + TAIL_RECONSUME_TIMES_AT))
        put_long(self._prepared_offset, row, load_i64(log, parts.tail_at + TAIL_PREPARED_OFFSET_AT))

        text = topic.text
        if len(text) > parts.topic_length:  # bad bytes became longer
            self._slack -= len(text) - parts.topic_length
        store_bytes(self._topic_text, self._topic_end, text, 0, len(text))
        self._topic_end += len(text)
        put_int(self._topic_ends, row + 1, self._topic_end)
        put_int(self._body_ends, row + 1, self._body_end)
        if self._with_hosts:
            born_host_at = at + BORN_HOST_AT
            store_host_length = parts.tail_at - parts.store_host_at
            put_hex(self._offset_id_text, self._offset_id_end, log, parts.store_host_at, store_host_length)
            self._offset_id_end += 2 * store_host_length
            put_hex(self._offset_id_text, self._offset_id_end, log, at + PHYSICAL_OFFSET_AT, 8)
            self._offset_id_end += 16
            self._born_host_end = self._put_host(
                self._born_host_text, self._born_host_end, born_host_at, parts.store_timestamp_at - born_host_at
            )
            self._store_host_end = self._put_host(
                self._store_host_text, self._store_host_end, parts.store_host_at, store_host_length
            )
            put_int(self._offset_id_ends, row + 1, self._offset_id_end)
            put_int(self._born_host_ends, row + 1, self._born_host_end)
            put_int(self._store_host_ends, row + 1, self._store_host_end)
        if self.properties is not None:
            if parts.properties_length > 0:
                self._slack -= self.properties.put(log, row, parts.properties_at, end)
            self.properties.end_row(row)
        return _END

    def _look_beyond(self, at: int, physical_offset: int, file_end: int) -> int:
        """The stretch ends before the record at `at` does: MORE, or BAD if what is there cannot be a record's begin."""
        log = self._log
        room = self._limit - at
        if room < END_FILE_MIN_BLANK_LENGTH:
            return self._more(END_FILE_MIN_BLANK_LENGTH)
        size = load_i32(log, at + TOTAL_SIZE_AT)
        if size < RECORD_OVERHEAD or size > _LARGEST_RECORD or size > file_end - physical_offset:
            return self._bad(_IMPOSSIBLE_SIZE)
        # What is in the stretch already tells whether it is worth reading more.
        if room >= PHYSICAL_OFFSET_END and load_i64(log, at + PHYSICAL_OFFSET_AT) != physical_offset:
            return self._bad(REASONS[WRONG_PLACE])
        return self._more(size)

    def _bad(self, reason: str) -> int:
        self.reason = reason
        return _BAD

    def _more(self, needed: int) -> int:
        self.needed = needed
        return _MORE

    def _damage(self, physical_offset: int, size: int, reason: str) -> int:
        self.damaged.append((physical_offset, size, reason))
        self.records += 1
        self.position += size
        return _END

    def _grow_bodies(self, needed: int) -> None:
        room = needed + needed // 2
        buffer = pa.allocate_buffer(room + 8)
        view = memoryview(buffer).cast("B")
        view[: self._body_end] = memoryview(self.buffers["body.text"]).cast("B")[: self._body_end]
        self.buffers["body.text"] = buffer
        self._body_data = address_of(view)
        self._body_room = room

    def _find_topic(self, at: int, length: int) -> _Topic:
        log = self._log
        slot = length
        if length > 0:
            slot = (length * 7 + log[at] * 3 + log[at + length // 2] * 5 + log[at + length - 1]) & _SLOTS - 1
        topic = self._topic_slots[slot]
        if topic is not None and len(topic.name) == length and is_equal(log, at, topic.name, 0, length):
            return topic
        name = copy_bytes(log, at, at + length)
        topic = self._topics.get(name)
        if topic is None:
            text = name.decode(errors="replace")
            topic = self._topics[name] = _Topic(name, text.encode(), self._is_wanted(text))
        self._topic_slots[slot] = topic
        return topic

    def _put_host(self, data: memoryview, end: int, at: int, length: int) -> int:
        """A host's text, behind `end`. Returns the new end."""
        if length == V4_SIZE:
            port = load_i32(self._log, at + length - _PORT_SIZE)
            if port >= 0:
                return end + put_ipv4(data, end, self._log, at, port)
        stored = copy_bytes(self._log, at, at + length)
        text = self._hosts.get(stored)
        if text is None:
            if len(self._hosts) >= _MOST_HOSTS:
                self._hosts.clear()
            text = self._hosts[stored] = format_host(decode_host(stored)).encode()
        store_bytes(data, end, text, 0, len(text))
        return end + len(text)
