# cython: wraparound=False, cdivision=True
"""PublishedFile: one mapped file of a queue, and how far its entries are published.

The broker looks for the entries of each pull, and mostly finds them in the file where it found that queue's last ones. `find` says
so without making Python objects, so this is a hot module (types in the `.pxd`). Made by `ConsumeQueueReader`, which maps the files.
"""

import cython

from ipc.queue_rows import RowReader

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, load_i64
    from headrace.protocol.consume_queue_layout import ENTRY_PHYSICAL_OFFSET_AT, ENTRY_SIZE


class PublishedFile:
    """Valid as long as the table's `changes` are those at which the file was the one on disk: `find` looks at them.

    Its other attributes are the result of the last `find` that returned True: `begin` and `end`, the bytes of `view` that have the entries from the
    queue offset on; `least` and `most`, the queue's lowest offset and the one after its highest; `physical_offset`, that of the first entry.
    """

    def __init__(self, rows: RowReader, row: int, changes: int, view: memoryview, first: int) -> None:
        """`view`: the file that begins at queue offset `first`; kept until this object goes."""
        self._rows = rows
        self._row = row
        self._changes = changes
        self.view = view
        self._entries = address_of(view)
        self._size = len(view)
        self._first = first
        self.begin = self.end = self.least = self.most = 0
        self.physical_offset = -1

    def find(self, queue_offset: int) -> bool:
        """Whether the entry of this offset is published and in this file. If not, it may be in another one, or being published."""
        rows = self._rows
        if not rows.has(self._row, queue_offset) or rows.changes != self._changes:
            return False
        begin = (queue_offset - self._first) * ENTRY_SIZE
        end = min((rows.max_queue_offset - self._first) * ENTRY_SIZE, self._size)
        if begin < 0 or begin + ENTRY_SIZE > end:
            return False
        self.begin = begin
        self.end = end
        self.least = rows.min_queue_offset
        self.most = rows.max_queue_offset
        self.physical_offset = load_i64(self._entries, begin + ENTRY_PHYSICAL_OFFSET_AT)
        return True
