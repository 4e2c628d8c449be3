# cython: wraparound=False, cdivision=True
"""The properties of records as columns: the map, and those properties that have a column of their own.

Part of the decoder, and hot: `RecordColumns` calls `put` and then `end_row` for each row, in the rows' order. Compiled where there is a compiler (types
in the `.pxd`). Every text is copied once, from the log to its place. Buffers have room for all that a stretch can hold; nothing checks.

The last value of a duplicate name is used, as in brokers. Up to `_MANY_PROPERTIES` earlier names of the row are compared; beyond,
and for duplicate names, a dictionary is used.
"""

import sys
from typing import Final

import cython
import pyarrow as pa

from headrace.model.properties import decode_properties

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, copy_bytes, is_equal, store_bytes
    from headrace.protocol.record_layout import read_property
    from spark_exporter.reading.memory import is_ascii, put_bit, put_int

COLUMNS: Final = frozenset({"msg_id", "keys", "tags", "real_topic", "retry_topic", "properties"})
"""Which columns of `schema.MESSAGES` these are."""

_MANY_PROPERTIES = 64  # limit: up to here earlier names are compared; beyond, a dictionary is faster


class PropertyColumns:
    """The columns of one range at a time, in `buffers` of its `RecordColumns`. `pairs`: the pairs in the maps of all rows."""

    def __init__(self, buffers: dict[str, pa.Buffer], all_properties: bool) -> None:
        """`all_properties`: the map also has UNIQ_KEY, KEYS and TAGS."""
        self._buffers = buffers
        self._all_properties = all_properties
        self.pairs = 0

    def make_room(self, rows: int, text: int) -> None:
        """Buffers for so many rows, and so many bytes of properties in all of them."""
        self._msg_id_ends = self._new("msg_id.ends", 4 * rows + 4)
        self._keys_ends = self._new("keys.ends", 4 * rows + 4)
        self._tags_ends = self._new("tags.ends", 4 * rows + 4)
        self._real_topic_ends = self._new("real_topic.ends", 4 * rows + 4)
        self._retry_topic_ends = self._new("retry_topic.ends", 4 * rows + 4)
        self._map_ends = self._new("properties.ends", 4 * rows + 4)
        self._msg_id_text = self._new("msg_id.text", text)
        self._keys_text = self._new("keys.text", text)
        self._tags_text = self._new("tags.text", text)
        self._real_topic_text = self._new("real_topic.text", text)
        self._retry_topic_text = self._new("retry_topic.text", text)
        # The shortest pair is a name and a value of one byte each, with two separators.
        self._name_ends = self._new("names.ends", text + 4)
        self._value_ends = self._new("values.ends", text + 4)
        self._name_text = self._new("names.text", text)
        self._value_text = self._new("values.text", text)
        put_int(self._msg_id_ends, 0, 0)
        put_int(self._keys_ends, 0, 0)
        put_int(self._tags_ends, 0, 0)
        put_int(self._real_topic_ends, 0, 0)
        put_int(self._retry_topic_ends, 0, 0)
        put_int(self._map_ends, 0, 0)
        put_int(self._name_ends, 0, 0)
        put_int(self._value_ends, 0, 0)

    def begin(self, rows: int) -> None:
        """Begin a range with at most so many rows."""
        self.pairs = 0
        self._msg_id_end = self._keys_end = self._tags_end = self._real_topic_end = self._retry_topic_end = 0
        self._name_end = self._value_end = 0
        self._msg_id_valid = self._new_bits("msg_id", rows)
        self._keys_valid = self._new_bits("keys", rows)
        self._tags_valid = self._new_bits("tags", rows)
        self._real_topic_valid = self._new_bits("real_topic", rows)
        self._retry_topic_valid = self._new_bits("retry_topic", rows)

    def _new(self, name: str, size: int) -> memoryview:
        # Not zeroed: unwritten pages cost nothing.
        buffer = pa.allocate_buffer(size + 8)
        self._buffers[name] = buffer
        return address_of(memoryview(buffer).cast("B"))

    def _new_bits(self, name: str, rows: int) -> memoryview:
        bits = bytearray(rows // 8 + 8)
        self._buffers[name + ".valid"] = pa.py_buffer(bits)
        return address_of(memoryview(bits))

    def put(self, log: memoryview, row: int, at: int, end: int) -> int:
        """Adds the properties of a row, which are in `log` from `at` to `end`. Returns by how much invalid bytes made them longer."""
        if not is_ascii(log, at, end):
            raw = copy_bytes(log, at, end)
            text = raw.decode(errors="replace").encode()
            if text != raw:
                self._put_pairs(row, decode_properties(text.decode()))
                return len(text) - len(raw)
        first_pair = self.pairs
        names_from = self._name_end
        values_from = self._value_end
        start = at
        msg_id = msg_id_end = keys = keys_end = tags = tags_end = real = real_end = retry = retry_end = 0
        while at < end:
            found = read_property(log, at, end)
            length = found.name_length
            if length:
                is_promoted = False
                if length == 4:
                    if is_equal(log, at, b"KEYS", 0, 4):
                        keys = found.value_at
                        keys_end = found.end
                        is_promoted = True
                    elif is_equal(log, at, b"TAGS", 0, 4):
                        tags = found.value_at
                        tags_end = found.end
                        is_promoted = True
                elif length == 8:
                    if is_equal(log, at, b"UNIQ_KEY", 0, 8):
                        msg_id = found.value_at
                        msg_id_end = found.end
                        is_promoted = True
                elif length == 10:
                    if is_equal(log, at, b"REAL_TOPIC", 0, 10):
                        real = found.value_at
                        real_end = found.end
                elif length == 11 and is_equal(log, at, b"RETRY_TOPIC", 0, 11):
                    retry = found.value_at
                    retry_end = found.end
                if not is_promoted or self._all_properties:
                    if self.pairs - first_pair >= _MANY_PROPERTIES or self._has_name(
                        log, first_pair, names_from, at, length
                    ):
                        # Duplicate or many names: use a dictionary.
                        self.pairs = first_pair
                        self._name_end = names_from
                        self._value_end = values_from
                        self._put_pairs(row, decode_properties(copy_bytes(log, start, end).decode()))
                        return 0
                    store_bytes(self._name_text, self._name_end, log, at, length)
                    self._name_end += length
                    store_bytes(self._value_text, self._value_end, log, found.value_at, found.end - found.value_at)
                    self._value_end += found.end - found.value_at
                    self.pairs += 1
                    put_int(self._name_ends, self.pairs, self._name_end)
                    put_int(self._value_ends, self.pairs, self._value_end)
            at = found.end + 1
        if msg_id > 0:
            store_bytes(self._msg_id_text, self._msg_id_end, log, msg_id, msg_id_end - msg_id)
            self._msg_id_end += msg_id_end - msg_id
            put_bit(self._msg_id_valid, row)
        if keys > 0:
            store_bytes(self._keys_text, self._keys_end, log, keys, keys_end - keys)
            self._keys_end += keys_end - keys
            put_bit(self._keys_valid, row)
        if tags > 0:
            store_bytes(self._tags_text, self._tags_end, log, tags, tags_end - tags)
            self._tags_end += tags_end - tags
            put_bit(self._tags_valid, row)
        if real > 0:
            store_bytes(self._real_topic_text, self._real_topic_end, log, real, real_end - real)
            self._real_topic_end += real_end - real
            put_bit(self._real_topic_valid, row)
        if retry > 0:
            store_bytes(self._retry_topic_text, self._retry_topic_end, log, retry, retry_end - retry)
            self._retry_topic_end += retry_end - retry
            put_bit(self._retry_topic_valid, row)
        return 0

    def end_row(self, row: int) -> int:
        """Ends a row: the pairs added since the last call belong to it."""
        row += 1
        put_int(self._msg_id_ends, row, self._msg_id_end)
        put_int(self._keys_ends, row, self._keys_end)
        put_int(self._tags_ends, row, self._tags_end)
        put_int(self._real_topic_ends, row, self._real_topic_end)
        put_int(self._retry_topic_ends, row, self._retry_topic_end)
        put_int(self._map_ends, row, self.pairs)
        return 0

    def _has_name(self, log: memoryview, first_pair: int, name_at: int, at: int, length: int) -> bool:
        """Whether one of the row's pairs so far has the name at `at`."""
        pair = first_pair
        while pair < self.pairs:
            # Ends are native numbers; where the one ends the next begins.
            name_end = self._end_of_name(pair + 1)
            if name_end - name_at == length and is_equal(self._name_text, name_at, log, at, length):
                return True
            name_at = name_end
            pair += 1
        return False

    def _end_of_name(self, pair: int) -> int:
        ends = self._name_ends
        if cython.compiled:
            return cython.cast("int*", ends)[pair]  # type: ignore[call-overload,no-any-return]
        return int.from_bytes(ends[4 * pair : 4 * pair + 4], sys.byteorder)

    def _put_pairs(self, row: int, properties: dict[str, str]) -> None:
        """The same from a dictionary, for rare cases."""
        for name, value in properties.items():
            if not self._all_properties and name in {"UNIQ_KEY", "KEYS", "TAGS"}:
                continue
            text = name.encode()
            store_bytes(self._name_text, self._name_end, text, 0, len(text))
            self._name_end += len(text)
            text = value.encode()
            store_bytes(self._value_text, self._value_end, text, 0, len(text))
            self._value_end += len(text)
            self.pairs += 1
            put_int(self._name_ends, self.pairs, self._name_end)
            put_int(self._value_ends, self.pairs, self._value_end)
        text = properties.get("UNIQ_KEY", "").encode()
        if text:
            store_bytes(self._msg_id_text, self._msg_id_end, text, 0, len(text))
            self._msg_id_end += len(text)
            put_bit(self._msg_id_valid, row)
        text = properties.get("KEYS", "").encode()
        if text:
            store_bytes(self._keys_text, self._keys_end, text, 0, len(text))
            self._keys_end += len(text)
            put_bit(self._keys_valid, row)
        text = properties.get("TAGS", "").encode()
        if text:
            store_bytes(self._tags_text, self._tags_end, text, 0, len(text))
            self._tags_end += len(text)
            put_bit(self._tags_valid, row)
        text = properties.get("REAL_TOPIC", "").encode()
        if text:
            store_bytes(self._real_topic_text, self._real_topic_end, text, 0, len(text))
            self._real_topic_end += len(text)
            put_bit(self._real_topic_valid, row)
        text = properties.get("RETRY_TOPIC", "").encode()
        if text:
            store_bytes(self._retry_topic_text, self._retry_topic_end, text, 0, len(text))
            self._retry_topic_end += len(text)
            put_bit(self._retry_topic_valid, row)
