# cython: wraparound=False, cdivision=True
"""Gathers the records of a pull: walks ConsumeQueue entries, keeps those whose tags match, copies their records.

A hot module (types in gather.pxd). One memcpy per record into one buffer is faster than vectored sends for messages
of ordinary size. Used on published entries only; each record is nevertheless compared with its entry
(`record_check`, without the CRC), because the file may have been deleted meanwhile, or the record may be damaged.

There are two cases. A deleted file is skipped completely. For an unreadable record in an existing file, only
its entry is skipped; RocketMQ continues at the next file, which hides up to 1 GiB of messages.
"""

from collections.abc import Callable

import cython

from store.commit_log.record_check import check_record

if cython.compiled:
    from cython.cimports.libc.string import memcpy
else:
    from headrace.protocol.big_endian import address_of, copy_bytes, load_i32, load_i64
    from headrace.protocol.consume_queue_layout import (
        ENTRY_PHYSICAL_OFFSET_AT,
        ENTRY_RECORD_SIZE_AT,
        ENTRY_SIZE,
        ENTRY_TAGS_CODE_AT,
        ENTRY_TAGS_HASH_AT,
        FILLER_SIZE,
    )
    from headrace.protocol.frame_layout import HEAD_SIZE, LENGTH_SIZE

_COPIED = 1
_GONE = 0
_UNREADABLE = -1
_HEAD_ROOM = 512  # before the records: room for the header of their frame
_LARGEST_HEAD = _HEAD_ROOM - HEAD_SIZE


class Gatherer:
    """Gathers the records of one pull at a time; its attributes have the result of the last one.

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
        self._out = memoryview(bytearray(65536 + _HEAD_ROOM))
        self.length = self.count = self.examined = 0
        self.last_physical_offset = -1
        self.removing = False
        self.unreadable: list[tuple[int, int]] = []

    def body(self) -> bytes:
        """The records gathered last, as they are stored."""
        return bytes(self._out[_HEAD_ROOM : _HEAD_ROOM + self.length])

    def frame(self, head: bytes) -> bytes:
        """The records gathered last as the body of a frame with this JSON header, which has at most 504 bytes."""
        head_length = len(head)
        if head_length > _LARGEST_HEAD:
            raise ValueError(f"a header of {head_length} bytes does not fit before the records")
        start = _HEAD_ROOM - HEAD_SIZE - head_length
        length = HEAD_SIZE - LENGTH_SIZE + head_length + self.length
        out = self._out
        for place in range(4):
            out[start + place] = length >> 24 - 8 * place & 255
            out[start + LENGTH_SIZE + place] = head_length >> 24 - 8 * place & 255
        if cython.compiled:
            memcpy(cython.address(out[start + HEAD_SIZE]), cython.cast(cython.p_char, head), head_length)
            return copy_bytes(cython.address(out[start]), 0, LENGTH_SIZE + length)  # type: ignore[arg-type]
        out[start + HEAD_SIZE : _HEAD_ROOM] = head
        return bytes(out[start : _HEAD_ROOM + self.length])

    def release(self) -> None:
        """Releases the file read last, which may have been deleted."""
        self._view = memoryview(b"\0")
        self._data = address_of(self._view)
        self._file_start = self._file_end = -1

    def gather(
        self,
        entries_view: memoryview,
        codes: set[int] | None,
        max_count: int,
        wrote_offset: int,
        in_memory_from: int,
        memory_bytes: int,
        memory_count: int,
        disk_bytes: int,
        disk_count: int,
    ) -> None:
        """Gathers the records of a pull from `entries_view` (whole entries; store spec, 3.5).

        `codes`: hashes of the wanted tags, None for all. Records below `in_memory_from` count as far behind and have
        smaller limits. The first matching record is copied whatever the limits.
        """
        entries = address_of(entries_view)
        at = 0
        entries_end = len(entries_view) - len(entries_view) % ENTRY_SIZE
        self.length = self.count = self.examined = 0
        self.last_physical_offset = -1
        self.removing = False
        if self.unreadable:
            self.unreadable = []
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
            outcome = self._copy(physical_offset, size, wrote_offset)
            at += ENTRY_SIZE
            if outcome == _COPIED:
                self.count += 1
                next_file = 0
                continue
            self.removing = True
            if outcome == _GONE:
                next_file = physical_offset - physical_offset % self._file_size + self._file_size
            elif physical_offset != 0 or size != FILLER_SIZE:  # a filler never had a record
                self.unreadable.append((at // ENTRY_SIZE - 1, physical_offset))
        self.examined = at // ENTRY_SIZE

    def _copy(self, physical_offset: int, size: int, wrote_offset: int) -> int:
        """Copies a record to the end of the buffer; returns whether it succeeded, its file is deleted, or it is unreadable."""
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
        start = physical_offset - self._file_start
        limit = min(self._file_end, wrote_offset) - self._file_start
        # A blank is not a record, and its result, 0, is not a size.
        if size <= 0 or check_record(self._view, start, limit, physical_offset, False) != size:
            return _UNREADABLE
        data = self._data
        at = _HEAD_ROOM + self.length
        if at + size > len(self._out):
            grown = memoryview(bytearray(2 * len(self._out) + size))
            grown[:at] = self._out[:at]
            self._out = grown
        out = self._out
        if cython.compiled:
            memcpy(cython.address(out[at]), data + start, size)  # type: ignore[operator]
        else:
            out[at : at + size] = data[start : start + size]
        self.length += size
        return _COPIED
