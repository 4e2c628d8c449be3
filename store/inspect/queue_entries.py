# cython: wraparound=False, cdivision=True
"""QueueEntries: the entries of one ConsumeQueue under inspection, across its files (compiled, types in the `.pxd`).

The files may be damaged: each is read within its own length, and an entry that is not wholly in its file counts as empty.
"""

import cython

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, load_i32, load_i64
    from headrace.protocol.consume_queue_layout import (
        ENTRY_PHYSICAL_OFFSET_AT,
        ENTRY_RECORD_SIZE_AT,
        ENTRY_SIZE,
        ENTRY_TAGS_CODE_AT,
        FILLER_SIZE,
    )


class QueueEntries:
    """`physical_offset`, `size` and `tags_code` are those of the last entry that was read; the size of an empty one is 0."""

    def __init__(self, views: list[memoryview], start: int) -> None:
        """`views` are the files in order, all as long as the first one, which begins at byte `start` of the queue."""
        self._views = views
        self._file_size = len(views[0]) if views else 0
        self._start = start
        self._index = -1
        self._length = 0
        self.first = (start + ENTRY_SIZE - 1) // ENTRY_SIZE
        """The queue offset of the first entry."""
        self.capacity_end = self.first + len(views) * self._file_size // ENTRY_SIZE
        """The queue offset after the last one for which there is room."""
        self.end = self.first
        """Set by the owner: the queue offset after the last entry that counts."""
        self.matched = 0
        """Entries to which the log has come."""
        self.physical_offset = self.size = self.tags_code = 0

    def read(self, queue_offset: int) -> bool:
        """Reads the entry of a queue offset; whether there is one between `first` and `end`."""
        self.physical_offset = self.size = self.tags_code = 0
        if queue_offset < self.first or queue_offset >= self.capacity_end:
            return False
        position = queue_offset * ENTRY_SIZE - self._start
        index = position // self._file_size
        if index != self._index:
            if index >= len(self._views):
                return False
            self._view = self._views[index]
            self._data = address_of(self._view)
            self._length = len(self._view)
            self._index = index
        at = position - index * self._file_size
        if at + ENTRY_SIZE <= self._length:
            self.physical_offset = load_i64(self._data, at + ENTRY_PHYSICAL_OFFSET_AT)
            self.size = load_i32(self._data, at + ENTRY_RECORD_SIZE_AT)
            self.tags_code = load_i64(self._data, at + ENTRY_TAGS_CODE_AT)
        return queue_offset < self.end

    def find_end(self) -> int:
        """The queue offset of the first empty entry; sets `end` to it."""
        number = self.first
        self.end = self.capacity_end
        while self.read(number) and self.physical_offset >= 0 and self.size > 0:
            number += 1
        self.end = number
        return number

    def count_kept(self, min_offset: int) -> int:
        """How many entries are no fillers and lead to physical offsets from `min_offset` on."""
        count = 0
        for number in range(self.first, self.end):
            self.read(number)
            if self.physical_offset >= min_offset and not (self.physical_offset == 0 and self.size == FILLER_SIZE):
                count += 1
        return count
