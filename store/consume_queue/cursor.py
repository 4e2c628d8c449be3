# cython: wraparound=False, cdivision=True
"""Where the next entry of one ConsumeQueue goes: the part of the writer that runs once a message (compiled, see the `.pxd`).

`position` counts bytes through the queue's files laid end to end: entry `q` is at `q * 20`. What lies between `position` and
`limit` is mapped and reserved on disk, so that writing there can neither fault nor meet a full disk. A cursor does only the
common case by itself; everything else it leaves to `ConsumeQueueWriter.put`.
"""

import cython

from headrace.protocol.queue_layout import QUEUE_OFFSET_MAX
from store.mapped_file import MappedFile

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, store_i32, store_i64
    from headrace.protocol.queue_layout import (
        ENTRY_PHYSICAL_OFFSET_AT,
        ENTRY_RECORD_SIZE_AT,
        ENTRY_SIZE,
        ENTRY_TAGS_CODE_AT,
    )


class QueueCursor:
    """A queue as dispatch knows it: its row in the queue table, its bounds, and its current file if that is mapped."""

    def __init__(self, topic: bytes, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.row = -1
        """In the queue table; -1: it found no place there, nobody can read the queue."""
        self.first_start = -1
        """Where the oldest file begins; -1: there is no file."""
        self.min_position = 0
        self.position = 0
        self.limit = 0
        self.max_physical_offset = -1
        """End of the last record that has an entry."""
        self.is_changed = False
        """Bounds have moved since they were last published."""
        self.is_used = False
        """It was written to since the writer last looked for mappings to let go."""
        self.file: MappedFile | None = None
        self._view: memoryview | None = None
        self._file_start = 0

    def attach(self, file: MappedFile) -> None:
        """Take a writable mapping; the cursor may write there once `limit` says so."""
        self.file = file
        self._view = file.view
        self._entries = address_of(self._view)
        self._file_start = file.start_offset
        self.limit = self.position

    def detach(self) -> None:
        """Let go of the mapping, and close it."""
        file = self.file
        self.limit = 0
        self.file = self._view = None
        if file is not None:
            file.close()

    def try_put(self, physical_offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Put the entry if it is there already or is the next one and has room; False: the writer must see to it."""
        if physical_offset + size <= self.max_physical_offset:
            return True
        if self.position >= self.limit or queue_offset > QUEUE_OFFSET_MAX or queue_offset * ENTRY_SIZE != self.position:
            return False
        self.write(physical_offset, size, tags_code)
        return True

    def write(self, physical_offset: int, size: int, tags_code: int) -> None:
        """Write an entry at `position`, which must be below `limit`. Nobody sees it before the row is published."""
        at = self.position - self._file_start
        store_i64(self._entries, at + ENTRY_PHYSICAL_OFFSET_AT, physical_offset)
        store_i32(self._entries, at + ENTRY_RECORD_SIZE_AT, size)
        store_i64(self._entries, at + ENTRY_TAGS_CODE_AT, tags_code)
        self.position += ENTRY_SIZE
        self.max_physical_offset = physical_offset + size
        self.is_used = True
