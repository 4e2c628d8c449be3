# cython: wraparound=False, cdivision=True
"""KeyChain: the entries of one IndexFile with a key's hash, newest first (compiled, see the `.pxd`).

Every number comes from the file, which may be damaged: an entry leads to an older one of a smaller number, or the chain ends. An entry is
reached only through its slot, which its writer stores last; so, unlike in RocketMQ's search, the header's
counts do not matter here.
"""

import cython

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, load_i32, load_i64
    from store.index.layout import (
        BEGIN_TIMESTAMP,
        END_TIMESTAMP,
        ENTRY_KEY_HASH_AT,
        ENTRY_PHYSICAL_OFFSET_AT,
        ENTRY_PREVIOUS_AT,
        ENTRY_SIZE,
        ENTRY_TIME_DIFF_AT,
        HEADER_SIZE,
        SLOT_SIZE,
    )

_TIME_MAX = 1 << 60  # limit: a later begin is damage; sums of it and of an entry's seconds fit in 64 bits


class KeyChain:
    """The physical offsets in the file that may belong to a key, stored from `begin` to `end` (ms)."""

    def __init__(self, view: memoryview, slots: int, entries: int, key_hash: int, begin: int, end: int) -> None:
        """`view` is the whole file, of `slots` slots and `entries` entries. `key_hash` is folded."""
        self._view = memoryview(view)  # of its own: the file stays mapped until the chain goes
        self._data = address_of(self._view)
        self._entries_at = HEADER_SIZE + SLOT_SIZE * slots
        self._key_hash = key_hash
        self._begin = begin
        self._end = end
        # order: the slot first. Its entry and the file's times with it were stored before it.
        number = load_i32(self._data, HEADER_SIZE + SLOT_SIZE * (key_hash % slots))
        first = load_i64(self._data, BEGIN_TIMESTAMP)
        last = load_i64(self._data, END_TIMESTAMP)
        self.begin_timestamp = first
        """Of the file, ms."""
        is_in_time = (begin < first and end > last) or first <= begin <= last or first <= end <= last
        self._number = number if number < entries and is_in_time and 0 <= first <= _TIME_MAX else 0

    def next(self) -> int:
        """The next physical offset; -1 if there is none."""
        number = self._number
        while number > 0:
            at = self._entries_at + ENTRY_SIZE * number
            seconds = load_i32(self._data, at + ENTRY_TIME_DIFF_AT)
            if seconds < 0:
                break
            timestamp = self.begin_timestamp + seconds * 1000
            previous = load_i32(self._data, at + ENTRY_PREVIOUS_AT)
            number = previous if previous < number and timestamp >= self._begin else 0
            if load_i32(self._data, at + ENTRY_KEY_HASH_AT) == self._key_hash:
                offset = load_i64(self._data, at + ENTRY_PHYSICAL_OFFSET_AT)
                if offset >= 0 and self._begin <= timestamp <= self._end:
                    self._number = number
                    return offset
        self._number = 0
        return -1
