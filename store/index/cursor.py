# cython: wraparound=False, cdivision=True
"""Puts keys into one IndexFile: the part of the writer that runs once per key (compiled, see the `.pxd`).

An entry is reached through its slot, and the newest one through the count. Therefore the order is

    entry -> end offset -> end timestamp -> both counts, in one store -> begin (first entry only) -> slot

and a process killed anywhere in between leaves a file that `IndexWriter.open_last` can repair: the last counted entry may
lack its slot, the first one may lack its begin, and an entry that is not counted is written again.
Without a kill the bytes equal those of RocketMQ, which stores the slot first.
"""

import os

import cython

from store.fault_point import ENVIRONMENT, fault_point
from store.index.layout import HEADER
from store.mapped_file import MappedFile

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, load_i32, store_i32, store_i64
    from store.index.layout import (
        BEGIN_PHYSICAL_OFFSET,
        BEGIN_TIMESTAMP,
        END_PHYSICAL_OFFSET,
        END_TIMESTAMP,
        ENTRY_KEY_HASH_AT,
        ENTRY_PHYSICAL_OFFSET_AT,
        ENTRY_PREVIOUS_AT,
        ENTRY_SIZE,
        ENTRY_TIME_DIFF_AT,
        HEADER_SIZE,
        SLOT_COUNT,
        SLOT_SIZE,
        TIME_DIFF_MAX,
    )


class IndexCursor:
    """The current file, mapped and completely reserved; its header is cached here and written through."""

    def __init__(self, file: MappedFile, slots: int, capacity: int) -> None:
        self.file = file
        self.slots = slots
        self.capacity = capacity
        self._view = file.view
        self._data = address_of(self._view)
        self._stops = ENVIRONMENT in os.environ
        begin, end, _, end_physical_offset, slots_used, count = HEADER.unpack_from(file.view)
        self.begin_timestamp = begin
        self.end_timestamp = end
        self.end_physical_offset = end_physical_offset
        # Both counts come from the file. `count` leads to no place before the caller has compared it with `capacity`.
        self.slots_used = min(max(slots_used, 0), slots)
        self.count = max(count, 1)
        """Number of the next entry."""

    def put(self, key_hash: int, physical_offset: int, store_timestamp: int) -> None:
        """Put one key by its folded hash. The caller has seen that `count` is below `capacity`."""
        slot_at = HEADER_SIZE + SLOT_SIZE * (key_hash % self.slots)
        previous = load_i32(self._data, slot_at)
        if previous <= 0 or previous > self.count:
            previous = 0
        seconds = 0
        if self.begin_timestamp > 0 and store_timestamp > self.begin_timestamp:
            # compat: in a file that is not the first, `begin_timestamp` is still the previous file's end for the first entry.
            seconds = min((store_timestamp - self.begin_timestamp) // 1000, TIME_DIFF_MAX)
        at = HEADER_SIZE + SLOT_SIZE * self.slots + ENTRY_SIZE * self.count
        store_i32(self._data, at + ENTRY_KEY_HASH_AT, key_hash)
        store_i64(self._data, at + ENTRY_PHYSICAL_OFFSET_AT, physical_offset)
        store_i32(self._data, at + ENTRY_TIME_DIFF_AT, seconds)
        store_i32(self._data, at + ENTRY_PREVIOUS_AT, previous)
        if self._stops:
            fault_point("index.entry_written")
        # order: entry, header, slot (see above)
        self.end_timestamp = store_timestamp
        self.end_physical_offset = physical_offset
        if previous == 0:
            self.slots_used += 1
        self.count += 1
        self.store_header(self.count == 2)
        if self._stops:
            fault_point("index.header_written")
        store_i32(self._data, slot_at, self.count - 1)

    def store_header(self, first: bool) -> None:
        """Write the header; `first`: the new entry is the file's first, so the file begins with it."""
        store_i64(self._data, END_PHYSICAL_OFFSET, self.end_physical_offset)
        if self._stops:
            fault_point("index.end_offset_written")
        store_i64(self._data, END_TIMESTAMP, self.end_timestamp)
        if self._stops:
            fault_point("index.end_written")
        store_i64(self._data, SLOT_COUNT, self.slots_used << 32 | self.count)  # two counts, one store
        if self._stops:
            fault_point("index.count_written")
        if first:
            self.begin_timestamp = self.end_timestamp
            store_i64(self._data, BEGIN_TIMESTAMP, self.end_timestamp)
            store_i64(self._data, BEGIN_PHYSICAL_OFFSET, self.end_physical_offset)
