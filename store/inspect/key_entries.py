# cython: wraparound=False, cdivision=True
"""KeyEntries: the entries of all IndexFiles under inspection, one after another; and the chains in one file (compiled, types in the `.pxd`).

Callers have checked that each file is as long as its numbers of slots and entries say, and that it has room for the entries that its header counts.
"""

import cython

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, load_i32, load_i64, store_i32
    from store.index.layout import (
        ENTRY_KEY_HASH_AT,
        ENTRY_PHYSICAL_OFFSET_AT,
        ENTRY_PREVIOUS_AT,
        ENTRY_SIZE,
        ENTRY_TIME_DIFF_AT,
        HEADER_SIZE,
        SLOT_SIZE,
        TIME_DIFF_MAX,
    )


class KeyEntries:
    """A place among the entries. The other attributes are those of the entry there, if `is_there`; after the last entry it is False."""

    def __init__(self, files: list[tuple[memoryview, int, int, int]], slots: int) -> None:
        """Of each file: its bytes, the number of its next entry, from when the first entry's seconds count, and from when the others' do."""
        self._files = files
        self._entries_at = HEADER_SIZE + SLOT_SIZE * slots
        self.begin_timestamp = -1
        """From when `seconds` count, ms; negative: not known."""
        self.key_hash = self.physical_offset = self.seconds = 0
        self._open(0)
        self.go_to(0, 1)

    def go_to(self, file: int, number: int) -> bool:
        """Moves to an entry, or to the next one there is if that file has fewer; whether there is one."""
        if file != self.file:
            self._open(file)
        while number >= self._count and self.file < len(self._files):
            self._open(self.file + 1)
            number = 1
        self.number = number
        self.is_there = self.file < len(self._files)
        if self.is_there:
            at = self._entries_at + ENTRY_SIZE * number
            self.key_hash = load_i32(self._data, at + ENTRY_KEY_HASH_AT)
            self.physical_offset = load_i64(self._data, at + ENTRY_PHYSICAL_OFFSET_AT)
            self.seconds = load_i32(self._data, at + ENTRY_TIME_DIFF_AT)
            self.begin_timestamp = self._first_begin if number == 1 else self._begin
        return self.is_there

    def is_time_right(self, store_timestamp: int) -> bool:
        """Whether the entry says the time of a record that was stored then."""
        if self.begin_timestamp < 0:
            return True
        seconds = 0
        if 0 < self.begin_timestamp <= store_timestamp:
            seconds = min((store_timestamp - self.begin_timestamp) // 1000, TIME_DIFF_MAX)
        return self.seconds == seconds

    def _open(self, file: int) -> None:
        self.file = file
        self._count = 0
        if file < len(self._files):
            self._view, self._count, self._first_begin, self._begin = self._files[file]
            self._data = address_of(self._view)


def follow_chains(view: memoryview, slots: int, number: int, count: int, newest: memoryview) -> tuple[int, int]:
    """Follows the entries of an IndexFile of so many slots, from `number` up to `count`, while each leads to the one before in its slot's chain.

    `newest` is the table of slots up to there, as in the file; it goes on with the entries. Returns the number of the first entry that does not
    fit, `count` if all do; and how many slots came into use.
    """
    data = address_of(view)
    slot_data = address_of(newest)
    used = 0
    while number < count:
        at = HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * number
        key_hash = load_i32(data, at + ENTRY_KEY_HASH_AT)
        if key_hash < 0:
            break
        slot_at = key_hash % slots * SLOT_SIZE
        if load_i32(data, at + ENTRY_PREVIOUS_AT) != load_i32(slot_data, slot_at):
            break
        used += load_i32(slot_data, slot_at) == 0
        store_i32(slot_data, slot_at, number)
        number += 1
    return number, used
