# cython: wraparound=False, cdivision=True
"""Gathers the records of a pull: walks ConsumeQueue entries, keeps those whose tags match, copies their records.

A hot module (types in gather.pxd). `gather` chooses the records and remembers where they are; `frame` and `body` copy them once, to where the transport
sends them from. One memcpy per record is faster than vectored sends for messages of ordinary size. The records of a queue lie apart in the log, so the
processor does not foresee the next one: it is asked to load it while the one before is checked.

Used on published entries only; each record is nevertheless compared with its entry
(`record_check`, without the CRC), because the file may have been deleted meanwhile, or the record may be damaged.

There are two cases. A deleted file is skipped completely. For an unreadable record in an existing file, only
its entry is skipped; RocketMQ continues at the next file, which hides up to 1 GiB of messages.
"""

from collections.abc import Callable

import cython

from store.commit_log.record_check import check_record

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
else:
    from headrace.protocol.big_endian import address_of, load_i32, load_i64, prefetch, store_bytes, store_i32
    from headrace.protocol.consume_queue_layout import (
        ENTRY_PHYSICAL_OFFSET_AT,
        ENTRY_RECORD_SIZE_AT,
        ENTRY_SIZE,
        ENTRY_TAGS_CODE_AT,
        ENTRY_TAGS_HASH_AT,
        FILLER_SIZE,
    )
    from headrace.protocol.frame_layout import HEAD_SIZE, LENGTH_SIZE

_FOUND = 1
_GONE = 0
_UNREADABLE = -1
_PREFETCHED = 2048  # limit: bytes of a record that are loaded before it is read; the processor foresees the rest
_RANGE = 3  # numbers in `_ranges` for each record: of its file, its position there, its size


class Gatherer:
    """Gathers the records of one pull at a time; its attributes have the result of the last one, until `release`.

    `length`: bytes of records (`body()`); `count`: records; `examined`: examined entries, after which the next pull
    begins; `last_physical_offset`: of the last examined entry, -1 without one; `removing`: the record of an entry
    is deleted or unreadable; `unreadable`: (number among the entries, physical offset) of unreadable records.
    """

    def __init__(self, file_for: Callable[[int], memoryview | None], file_size: int) -> None:
        """`file_for(offset)` maps the CommitLog file around an offset and returns its view."""
        self._file_for = file_for
        self._file_size = file_size
        self._view = memoryview(b"\0")
        self._data = address_of(self._view)
        self._file_start = self._file_end = -1
        self._files: list[memoryview] = []
        self._ranges = memoryview(bytearray(64 * _RANGE * 8)).cast("q")
        self.length = self.count = self.examined = 0
        self.last_physical_offset = -1
        self.removing = False
        self.unreadable: list[tuple[int, int]] = []

    def body(self) -> bytes:
        """The records gathered last, as they are stored."""
        return self._copy_after(b"", 0)

    def frame(self, head: bytes) -> bytes:
        """The records gathered last as the body of a frame with this JSON header."""
        return self._copy_after(head, HEAD_SIZE)

    def _copy_after(self, head: bytes, at: int) -> bytes:
        """Copies the records after the header of their frame, which begins at `at`: without one at 0, otherwise after its lengths."""
        head_length = len(head)
        size = at + head_length + self.length
        if cython.compiled:
            copied = PyBytes_FromStringAndSize(cython.NULL, size)
            out = cython.cast(cython.p_uchar, PyBytes_AS_STRING(copied))
            text = cython.cast(cython.p_uchar, PyBytes_AS_STRING(head))
        else:
            copied = bytearray(size)
            out = memoryview(copied)
            text = head
        if at:
            store_i32(out, 0, size - LENGTH_SIZE)
            store_i32(out, LENGTH_SIZE, head_length)
        store_bytes(out, at, text, 0, head_length)
        at += head_length
        ranges = self._ranges
        file = -1
        for number in range(0, self.count * _RANGE, _RANGE):
            if ranges[number] != file:
                file = ranges[number]
                data = address_of(self._files[file])
            store_bytes(out, at, data, ranges[number + 1], ranges[number + 2])
            at += ranges[number + 2]
        return copied if cython.compiled else bytes(copied)

    def release(self) -> None:
        """Releases the files read last, which may have been deleted."""
        self._view = memoryview(b"\0")
        self._data = address_of(self._view)
        self._file_start = self._file_end = -1
        self._files.clear()
        self.length = self.count = 0

    def gather(
        self,
        view: memoryview,
        begin: int,
        end: int,
        codes: set[int] | None,
        max_count: int,
        wrote_offset: int,
        in_memory_from: int,
        memory_bytes: int,
        memory_count: int,
        disk_bytes: int,
        disk_count: int,
    ) -> None:
        """Gathers the records of a pull from the entries in these bytes of `view`, the last of which may be a part of one (store spec, 3.5).

        `codes`: hashes of the wanted tags, None for all. Records below `in_memory_from` count as far behind and have
        smaller limits. The first matching record is taken whatever the limits.
        """
        entries = address_of(view)
        if begin < 0 or end > (PyMemoryView_GET_BUFFER(view).len if cython.compiled else len(view)):
            raise IndexError(f"bytes {begin} to {end} are not all in the view")
        at = begin
        entries_end = end - (end - begin) % ENTRY_SIZE
        self.length = self.count = self.examined = 0
        self.last_physical_offset = -1
        self.removing = False
        if self.unreadable:
            self.unreadable = []
        self._files.clear()
        if self._file_start >= 0:
            self._files.append(self._view)
        next_file = 0
        while at < entries_end:
            physical_offset = load_i64(entries, at + ENTRY_PHYSICAL_OFFSET_AT)
            size = load_i32(entries, at + ENTRY_RECORD_SIZE_AT)
            self.last_physical_offset = physical_offset
            if 0 <= physical_offset < next_file:
                at += ENTRY_SIZE
                continue
            if self.count:
                bytes_limit = memory_bytes
                count_limit = memory_count
                if physical_offset < in_memory_from:
                    bytes_limit = disk_bytes
                    count_limit = disk_count
                if self.count >= max_count or self.length + size > bytes_limit or self.count > count_limit - 1:
                    break
            if codes is not None:
                tags_code = load_i32(entries, at + ENTRY_TAGS_HASH_AT)
                # The address of an extended unit is not a hash of tags: the consumer, which checks tags again, decides (store spec, 3.6).
                if tags_code not in codes and load_i32(entries, at + ENTRY_TAGS_CODE_AT) >= -1:
                    at += ENTRY_SIZE
                    continue
            outcome = self._find(physical_offset, size, wrote_offset)
            at += ENTRY_SIZE
            if at < entries_end:
                self._prefetch(load_i64(entries, at + ENTRY_PHYSICAL_OFFSET_AT), size)
            if outcome == _FOUND:
                next_file = 0
                continue
            self.removing = True
            if outcome == _GONE:
                next_file = physical_offset - physical_offset % self._file_size + self._file_size
            elif physical_offset != 0 or size != FILLER_SIZE:  # a filler never had a record
                self.unreadable.append(((at - begin) // ENTRY_SIZE - 1, physical_offset))
        self.examined = (at - begin) // ENTRY_SIZE

    def _prefetch(self, physical_offset: int, size: int) -> None:
        """Asks for a record that is probably as long as the one before it."""
        if self._file_start <= physical_offset < self._file_end:
            start = physical_offset - self._file_start
            prefetch(self._data, start, min(start + min(size, _PREFETCHED), self._file_size))

    def _find(self, physical_offset: int, size: int, wrote_offset: int) -> int:
        """Adds a record to those that are found; returns whether it is, its file is deleted, or it is unreadable."""
        if not self._file_start <= physical_offset < self._file_end:
            if physical_offset < 0 or physical_offset >= wrote_offset:
                return _UNREADABLE
            found = self._file_for(physical_offset)
            if found is None:
                return _GONE
            self._view = found
            self._data = address_of(found)
            self._file_start = physical_offset - physical_offset % self._file_size
            self._file_end = self._file_start + self._file_size
            self._files.append(found)
        start = physical_offset - self._file_start
        limit = min(self._file_end, wrote_offset) - self._file_start
        # A blank is not a record, and its result, 0, is not a size.
        if size <= 0 or check_record(self._view, start, limit, physical_offset, False) != size:
            return _UNREADABLE
        number = self.count * _RANGE
        if number >= len(self._ranges):
            grown = memoryview(bytearray(2 * 8 * number)).cast("q")
            grown[:number] = self._ranges
            self._ranges = grown
        ranges = self._ranges
        ranges[number] = len(self._files) - 1
        ranges[number + 1] = start
        ranges[number + 2] = size
        self.count += 1
        self.length += size
        return _FOUND
