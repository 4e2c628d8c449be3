# cython: wraparound=False, cdivision=True
"""QueueEntries: the entries of one ConsumeQueue under inspection, across its files (compiled, types in the `.pxd`).

The files may be damaged: each is read within its own length, and an entry that is not wholly in its file counts as empty. They are read in blocks and
not mapped: a store may have more queues than a process may map files.
"""

from collections.abc import Sequence

import cython

from store.inspect.files import StoredFile

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

    def __init__(self, files: Sequence[StoredFile], block_size: int) -> None:
        """`files` are in order, and all as long as the first one. A block has at least one entry."""
        self._files = files
        self._block_size = block_size
        self._file_size = files[0].size if files else 0
        self._start = start = files[0].start if files else 0
        # Positions are those in the queue's stream of bytes, counted from the first file's begin.
        self._block = memoryview(b"")
        self._data = address_of(self._block)
        self._length = self._block_at = self._block_end = 0
        self._has_gone = False
        self.first = (start + ENTRY_SIZE - 1) // ENTRY_SIZE
        """The queue offset of the first entry."""
        self.capacity_end = self.first + len(files) * self._file_size // ENTRY_SIZE
        """The queue offset after the last one for which there is room."""
        self.end = self.first
        """Set by the owner: the queue offset after the last entry that counts."""
        self.matched = 0
        """Entries to which the log has come."""
        self.physical_offset = self.size = self.tags_code = 0

    def read(self, queue_offset: int) -> bool:
        """Reads the entry of a queue offset; whether there is one between `first` and `end`, and its file has not gone."""
        self.physical_offset = self.size = self.tags_code = 0
        if queue_offset < self.first or queue_offset >= self.capacity_end:
            return False
        position = queue_offset * ENTRY_SIZE - self._start
        if (position < self._block_at or position >= self._block_end) and not self._load(position):
            return False
        at = position - self._block_at
        if at + ENTRY_SIZE <= self._length:
            self.physical_offset = load_i64(self._data, at + ENTRY_PHYSICAL_OFFSET_AT)
            self.size = load_i32(self._data, at + ENTRY_RECORD_SIZE_AT)
            self.tags_code = load_i64(self._data, at + ENTRY_TAGS_CODE_AT)
        return queue_offset < self.end and not self._has_gone

    def _load(self, position: int) -> bool:
        """Reads the block that begins with the entry at a position; whether there is a file for it."""
        index = position // self._file_size
        if index >= len(self._files):
            return False
        file_end = (index + 1) * self._file_size
        block = self._files[index].read(position - index * self._file_size, self._block_size)
        self._has_gone = block is None
        self._block = memoryview(block or b"")
        self._data = address_of(self._block)
        self._length = len(self._block)
        self._block_at = position
        # Of a shorter file than the first one, the rest is known to be empty.
        is_full = self._length == self._block_size
        self._block_end = min(position + self._block_size - ENTRY_SIZE + 1, file_end) if is_full else file_end
        return True

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
            is_there = self.read(number)
            is_filler = self.physical_offset == 0 and self.size == FILLER_SIZE
            if is_there and self.physical_offset >= min_offset and not is_filler:
                count += 1
        return count
