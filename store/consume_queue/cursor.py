# cython: wraparound=False, cdivision=True
"""The position of the next entry of a ConsumeQueue: the part of the writer that runs once per message (compiled, see the `.pxd`).

`position` counts bytes in the stream of the queue's files: entry `q` is at `q * 20`. The bytes between `position` and
`limit` are mapped and reserved on disk, so that a write can neither fault nor fail on a full disk. A cursor handles only the
common case; everything else is left to `ConsumeQueueWriter.put`.
"""

import cython

from headrace.protocol.consume_queue_layout import QUEUE_OFFSET_MAX
from ipc.queue_rows import QueueRows
from store.consume_queue.window import QueueWindow

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, store_i32, store_i64
    from headrace.protocol.consume_queue_layout import (
        ENTRY_PHYSICAL_OFFSET_AT,
        ENTRY_RECORD_SIZE_AT,
        ENTRY_SIZE,
        ENTRY_TAGS_CODE_AT,
    )


class QueueCursor:
    """Dispatch's state of a queue: its row in the queue table, its bounds, and its window if it is mapped."""

    def __init__(self, topic: bytes, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.row = -1
        """In the queue table; -1: the table was full, and the queue cannot be read."""
        self.first_start = -1
        """Where the oldest file begins; -1: there is no file."""
        self.min_position = 0
        self.position = 0
        self.limit = 0
        self.reserved = 0
        """End of the bytes that are known to be reserved on disk."""
        self.max_physical_offset = -1
        """End of the last record that has an entry."""
        self.is_changed = False
        """The bounds have changed since they were last published."""
        self.is_used = False
        """It was written to since the writer last searched for mappings to release."""
        self.window: QueueWindow | None = None
        self._view: memoryview | None = None
        self._window_start = 0

    def attach(self, window: QueueWindow, limit: int) -> None:
        """Set a mapping; the cursor may write there below `limit`."""
        self.window = window
        self._view = window.view
        self._entries = address_of(self._view)
        self._window_start = window.start_offset
        self.limit = limit

    def detach(self) -> None:
        """Release the mapping."""
        window = self.window
        self.limit = 0
        self.window = self._view = None
        if window is not None:
            window.close()

    def try_put(self, physical_offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Put the entry if it already exists, or is the next one and has room; False: the writer must handle it."""
        if physical_offset + size <= self.max_physical_offset:
            return True
        if self.position >= self.limit or queue_offset > QUEUE_OFFSET_MAX or queue_offset * ENTRY_SIZE != self.position:
            return False
        self.write(physical_offset, size, tags_code)
        return True

    def write(self, physical_offset: int, size: int, tags_code: int) -> None:
        """Write an entry at `position`, which must be below `limit`. It is not visible before the row is published."""
        at = self.position - self._window_start
        store_i64(self._entries, at + ENTRY_PHYSICAL_OFFSET_AT, physical_offset)
        store_i32(self._entries, at + ENTRY_RECORD_SIZE_AT, size)
        store_i64(self._entries, at + ENTRY_TAGS_CODE_AT, tags_code)
        self.position += ENTRY_SIZE
        self.max_physical_offset = physical_offset + size
        self.is_used = True


def publish_bounds(changed: list[QueueCursor], bounds: QueueRows) -> list[int]:
    """Stores the bounds of changed queues in their rows; returns these rows."""
    rows = []
    for cursor in changed:
        cursor.is_changed = False
        if cursor.row >= 0:
            bounds.update(
                cursor.row,
                cursor.min_position // ENTRY_SIZE,
                cursor.position // ENTRY_SIZE,
                cursor.max_physical_offset,
            )
            rows.append(cursor.row)
    return rows
