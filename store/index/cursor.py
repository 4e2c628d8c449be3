# cython: wraparound=False, cdivision=True
"""Puts keys into one IndexFile: the part of the writer that runs once per key (compiled, see the `.pxd`).

An entry is reached through its slot, and the newest one through the count. Therefore the order is

    entry -> end offset -> end timestamp -> both counts, in one store -> begin (first entry only) -> slot

and a process killed anywhere in between leaves a file that `IndexWriter.open_last` can repair: the last counted entry may
lack its slot, the first one may lack its begin, and an entry that is not counted is written again.
Without a kill the bytes equal those of RocketMQ, which stores the slot first.

The slot of a key is anywhere in 20 MB, so reading it is a miss of the processor's caches: 0.6 us, more than the rest of a record's dispatch. So
keys are collected, their slots are loaded meanwhile, and `settle` writes their entries in order.
"""

import os

import cython

from store.fault_point import ENVIRONMENT, fault_point
from store.index.layout import HEADER
from store.mapped_file import MappedFile

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, load_i32, prefetch, store_i32, store_i64
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

if not cython.compiled:
    COLLECTED_MAX = 16  # limit: long enough for loads from memory; as in the `.pxd`


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
        """Number of the next entry, after those of all keys that were put."""
        self._collected = 0
        if not cython.compiled:
            self._hashes = [0] * COLLECTED_MAX
            self._offsets = [0] * COLLECTED_MAX
            self._timestamps = [0] * COLLECTED_MAX

    def put(self, key_hash: int, physical_offset: int, store_timestamp: int) -> None:
        """Put one key by its folded hash; it is in the file after the next `settle`. The caller has seen that `count` is below `capacity`."""
        slot_at = HEADER_SIZE + SLOT_SIZE * (key_hash % self.slots)
        prefetch(self._data, slot_at, slot_at + SLOT_SIZE)
        number = self._collected
        self._hashes[number] = key_hash
        self._offsets[number] = physical_offset
        self._timestamps[number] = store_timestamp
        self._collected = number + 1
        self.end_timestamp = store_timestamp
        self.end_physical_offset = physical_offset
        self.count += 1
        if self._collected == COLLECTED_MAX or self.count >= self.capacity:
            self.settle()

    def settle(self) -> None:
        """Write the entries of all keys that were put. Done before the records are published as dispatched."""
        collected = self._collected
        first = self.count - collected
        self._collected = 0
        for number in range(collected):
            self._write(
                first + number,
                self._hashes[number],
                self._offsets[number],
                self._timestamps[number],
            )

    def _write(self, number: int, key_hash: int, physical_offset: int, store_timestamp: int) -> None:
        slot_at = HEADER_SIZE + SLOT_SIZE * (key_hash % self.slots)
        previous = load_i32(self._data, slot_at)
        if previous <= 0 or previous > number:
            previous = 0
        seconds = 0
        if self.begin_timestamp > 0 and store_timestamp > self.begin_timestamp:
            # compat: in a file that is not the first, `begin_timestamp` is still the previous file's end for the first entry.
            seconds = min((store_timestamp - self.begin_timestamp) // 1000, TIME_DIFF_MAX)
        at = HEADER_SIZE + SLOT_SIZE * self.slots + ENTRY_SIZE * number
        store_i32(self._data, at + ENTRY_KEY_HASH_AT, key_hash)
        store_i64(self._data, at + ENTRY_PHYSICAL_OFFSET_AT, physical_offset)
        store_i32(self._data, at + ENTRY_TIME_DIFF_AT, seconds)
        store_i32(self._data, at + ENTRY_PREVIOUS_AT, previous)
        if self._stops:
            fault_point("index.entry_written")
        # order: entry, header, slot (see above)
        if previous == 0:
            self.slots_used += 1
        self._write_header(number + 1, physical_offset, store_timestamp)
        if self._stops:
            fault_point("index.header_written")
        store_i32(self._data, slot_at, number)

    def _write_header(self, count: int, physical_offset: int, store_timestamp: int) -> None:
        store_i64(self._data, END_PHYSICAL_OFFSET, physical_offset)
        if self._stops:
            fault_point("index.end_offset_written")
        store_i64(self._data, END_TIMESTAMP, store_timestamp)
        if self._stops:
            fault_point("index.end_written")
        store_i64(self._data, SLOT_COUNT, self.slots_used << 32 | count)  # two counts, one store
        if self._stops:
            fault_point("index.count_written")
        if count == 2:
            # The file begins with its first entry.
            self.begin_timestamp = store_timestamp
            store_i64(self._data, BEGIN_TIMESTAMP, store_timestamp)
            store_i64(self._data, BEGIN_PHYSICAL_OFFSET, physical_offset)
