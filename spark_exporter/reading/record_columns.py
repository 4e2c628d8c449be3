# cython: wraparound=False, cdivision=True
# ruff: noqa: PLR1714  (a set or tuple to look in is an object; comparisons are C)
"""Decodes records of the CommitLog into the memory of Arrow columns, one pass over the bytes.

The hot module of the exporter: compiled where there is a compiler (types in the `.pxd`), plain Python elsewhere, with the same columns as
result. One call of `decode` takes a stretch of log that lies in memory and fills buffers which `arrow_batches` makes arrays of. A record costs its numbers, one copy of each of its texts, and a CRC of its body.

A record is taken if its lengths make its size and it says that it lies where it lies. If then its body does not have its CRC, or cannot be
inflated, or its times mean nothing, it goes into `damaged` and the next one is where its size says. Anything else ends the call: the
caller decides where to go on.

Buffers have room for the whole stretch from the start, so nothing checks for room in between, but for what may grow: inflated bodies
(`_grow_bodies`) and texts that are no UTF-8 (`_TEXT_SLACK`).
"""

from collections.abc import Callable
from typing import Final

import cython
import pyarrow as pa

from headrace.errors import RemoteProtocolError
from headrace.model.host import decode_host, format_host
from headrace.protocol.compression import decompress
from spark_exporter.reading.crc_function import find_crc_function
from spark_exporter.reading.property_columns import PropertyColumns

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, copy_bytes, is_equal, load_i16, load_i32, load_i64
    from spark_exporter.reading.memory import (
        crc_of,
        put_bit,
        put_bytes,
        put_hex,
        put_int,
        put_ipv4,
        put_long,
        take_crc_function,
    )

take_crc_function(find_crc_function())

IS_COMPILED: Final = bool(cython.compiled)

END: Final = 0
"""The first record at or beyond `stop` lies at `position` (or the log ends there)."""
MORE: Final = 1
"""The record at `position` goes beyond the stretch; its whole size is `needed`, 8 if not even that is known."""
BLANK: Final = 2
"""The blank record that ends the file lies at `position`."""
BAD: Final = 3
"""What lies at `position` is no record; `reason` says why."""
FULL: Final = 4
"""The batch is as large as it may be; go on at `position`."""

HOST_COLUMNS: Final = frozenset({"born_host", "store_host", "offset_msg_id"})
"""The columns that hosts are in."""

_END = END
_MORE = MORE
_BLANK = BLANK
_BAD = BAD
_FULL = FULL
_MESSAGE_MAGIC = -626843481
_MESSAGE_MAGIC_V2 = -626843477
_BLANK_MAGIC = -875286124
_SMALLEST_RECORD = 91
_LARGEST_RECORD = 64 << 20  # limit: sixteen times what brokers take by default; it is read whole into memory
_COMPRESSED = 0x1
_BORN_HOST_V6 = 0x10
_STORE_HOST_V6 = 0x20
_LONGEST_HOST = 53  # eight groups in brackets, a colon, the port with its sign
_TEXT_SLACK = 1 << 18  # limit: two property strings of bad bytes, each of which becomes three
_SLOTS = 1024  # limit: a power of two
_MOST_HOSTS = 1 << 14  # limit: of IPv6 hosts that are remembered; then it begins anew
_FIRST_MS = -62135596800000  # 0001-01-01
_LAST_MS = 253402300799999  # 9999-12-31
_EVER = 0x7FFFFFFFFFFFFFFF


class _Topic:
    """A topic that has been met: its text in UTF-8 and whether its records are wanted."""

    def __init__(self, name: bytes, text: bytes, is_wanted: bool) -> None:
        self.name = name
        self.text = text
        self.is_wanted = is_wanted


def _is_free(memory: bytearray) -> bool:
    """Whether no array lies there: Python changes the size of nothing that is looked at."""
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
        """`is_wanted(topic)` is asked once a topic. Of records, those with first_ms <= store timestamp < end_ms are wanted.

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
        # The topic met last with the same few bits: found without spec an object of its name.
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
        """Room for the records of a stretch of `span` bytes, all of it empty."""
        if span > self._span:
            self._make_room(span)
        self.rows = 0
        self.records = 0
        self._slack = _TEXT_SLACK
        self._topic_end = self._offset_id_end = self._born_host_end = self._store_host_end = self._body_end = 0
        # Bodies are most of the log: they are copied but once, into memory that the batch then has.
        self._body_room = self._span if self._with_body else 0
        self._body_data = self._take_body_memory()
        rows = span // _SMALLEST_RECORD + 2
        self._born_valid = self._new_bits("born_timestamp", rows)
        if self.properties is not None:
            self.properties.begin(rows)

    def _make_room(self, span: int) -> None:
        """Buffers that are used again with each stretch. What is in them is copied out: it is much less than their size."""
        self._span = span
        self._body_memories = []
        rows = span // _SMALLEST_RECORD + 2
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
        self._offset_id_text = self._new("offset_msg_id.text", 56 * rows)
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
        # Not zeroed: pages that are not written cost nothing.
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
        if file_end - physical_offset < 8:
            return self._bad("too few bytes for a record")
        if limit - at < 8:
            return self._more(8)
        size = load_i32(log, at)
        magic = load_i32(log, at + 4)
        if magic == _BLANK_MAGIC:
            return _BLANK
        if magic != _MESSAGE_MAGIC and magic != _MESSAGE_MAGIC_V2:
            return self._bad("no magic code")
        if size < _SMALLEST_RECORD or size > _LARGEST_RECORD or size > file_end - physical_offset:
            return self._bad("its total size cannot be")
        end = at + size
        if end > limit:
            # What lies in the stretch already tells whether it is worth reading more for.
            if limit - at >= 36 and load_i64(log, at + 28) != physical_offset:
                return self._bad("the record says that it lies elsewhere")
            return self._more(size)
        if load_i64(log, at + 28) != physical_offset:
            return self._bad("the record says that it lies elsewhere")
        sys_flag = load_i32(log, at + 36)
        born_host_length = 20 if sys_flag & _BORN_HOST_V6 else 8
        store_host_length = 20 if sys_flag & _STORE_HOST_V6 else 8
        timestamp_at = at + 48 + born_host_length
        store_host_at = timestamp_at + 8
        body_at = store_host_at + store_host_length + 16
        if body_at > end:
            return self._bad("its lengths do not add up to its total size")
        body_length = load_i32(log, body_at - 4)
        body_length = max(body_length, 0)
        if body_length > end - body_at - 3:
            return self._bad("its lengths do not add up to its total size")
        topic_at = body_at + body_length
        if magic == _MESSAGE_MAGIC:
            topic_length = log[topic_at]
            topic_at += 1
            if topic_length > 127:
                return self._bad("the topic's length is negative")
        else:
            topic_length = load_i16(log, topic_at)
            topic_at += 2
            if topic_length < 0:
                return self._bad("the topic's length is negative")
        properties_at = topic_at + topic_length + 2
        if properties_at > end:
            return self._bad("its lengths do not add up to its total size")
        properties_length = load_i16(log, properties_at - 2)
        properties_length = max(properties_length, 0)
        if properties_at + properties_length != end:
            return self._bad("its lengths do not add up to its total size")

        # A record: from here on it is walked over, whatever is in it.
        if self._body_end >= self._most_body_bytes or self._slack < 3 * (properties_length + topic_length):
            return _FULL
        store_ms = load_i64(log, timestamp_at)
        if store_ms < _FIRST_MS or store_ms > _LAST_MS:
            return self._damage(physical_offset, size, "its store timestamp is no time")
        topic = self._find_topic(topic_at, topic_length)
        if not topic.is_wanted or store_ms < self._first_ms or store_ms >= self._end_ms:
            self.last_store_timestamp = store_ms
            self.last_physical_offset = physical_offset
            self.records += 1
            self.position = end
            return _END
        body_crc = load_i32(log, at + 8)
        if body_length > 0:
            crc = crc_of(log, body_at, body_length)
            if crc & 0x7FFFFFFF != body_crc:
                return self._damage(physical_offset, size, "its body does not have its CRC")
        if self._with_body:
            if sys_flag & _COMPRESSED and self._inflate and body_length > 0:
                try:
                    plain = decompress(copy_bytes(log, body_at, body_at + body_length), sys_flag)
                except RemoteProtocolError as error:
                    return self._damage(physical_offset, size, str(error))
                if self._body_end + len(plain) + (limit - end) > self._body_room:
                    self._grow_bodies(self._body_end + len(plain) + (limit - end))
                put_bytes(self._body_data, self._body_end, plain, 0, len(plain))
                self._body_end += len(plain)
            else:
                put_bytes(self._body_data, self._body_end, log, body_at, body_length)
                self._body_end += body_length

        row = self.rows
        self.last_store_timestamp = store_ms
        self.last_physical_offset = physical_offset
        self.records += 1
        self.rows = row + 1
        self.position = end
        put_int(self._store_size, row, size)
        put_int(self._body_crc, row, body_crc)
        put_int(self._queue_id, row, load_i32(log, at + 12))
        put_int(self._flag, row, load_i32(log, at + 16))
        put_long(self._queue_offset, row, load_i64(log, at + 20))
        put_long(self._commit_log_offset, row, physical_offset)
        put_int(self._sys_flag, row, sys_flag)
        born_ms = load_i64(log, at + 40)
        if born_ms >= _FIRST_MS and born_ms <= _LAST_MS:
            put_long(self._born_timestamp, row, born_ms * 1000)
            put_bit(self._born_valid, row)
        else:
            put_long(self._born_timestamp, row, 0)
        put_long(self._store_timestamp, row, store_ms * 1000)
        put_int(self._reconsume_times, row, load_i32(log, body_at - 16))
        put_long(self._prepared_offset, row, load_i64(log, body_at - 12))

        text = topic.text
        if len(text) > topic_length:  # bad bytes became longer
            self._slack -= len(text) - topic_length
        put_bytes(self._topic_text, self._topic_end, text, 0, len(text))
        self._topic_end += len(text)
        put_int(self._topic_ends, row + 1, self._topic_end)
        put_int(self._body_ends, row + 1, self._body_end)
        if self._with_hosts:
            put_hex(self._offset_id_text, self._offset_id_end, log, store_host_at, store_host_length)
            self._offset_id_end += 2 * store_host_length
            put_hex(self._offset_id_text, self._offset_id_end, log, at + 28, 8)
            self._offset_id_end += 16
            self._born_host_end = self._put_host(self._born_host_text, self._born_host_end, at + 48, born_host_length)
            self._store_host_end = self._put_host(
                self._store_host_text, self._store_host_end, store_host_at, store_host_length
            )
            put_int(self._offset_id_ends, row + 1, self._offset_id_end)
            put_int(self._born_host_ends, row + 1, self._born_host_end)
            put_int(self._store_host_ends, row + 1, self._store_host_end)
        if self.properties is not None:
            if properties_length > 0:
                self._slack -= self.properties.put(log, row, properties_at, end)
            self.properties.end_row(row)
        return _END

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
        if length == 8:
            port = load_i32(self._log, at + 4)
            if port >= 0:
                return end + put_ipv4(data, end, self._log, at, port)
        stored = copy_bytes(self._log, at, at + length)
        text = self._hosts.get(stored)
        if text is None:
            if len(self._hosts) >= _MOST_HOSTS:
                self._hosts.clear()
            text = self._hosts[stored] = format_host(decode_host(stored)).encode()
        put_bytes(data, end, text, 0, len(text))
        return end + len(text)
