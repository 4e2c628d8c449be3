"""Writes IndexFiles: creates, fills, rolls and deletes them. Used by dispatch only.

Entries are reached through their slot, which is stored last (`cursor`), so a killed writer leaves nothing incomplete visible.
`open_last` repairs the file: it links the last entry if no slot points to it. If dispatch reads the record
again, `present_keys` returns how many of its keys already exist.
"""

import logging
import mmap
import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from store.config import StoreConfig
from store.fault_point import fault_point
from store.index.cursor import IndexCursor
from store.index.layout import (
    BEGIN_PHYSICAL_OFFSET,
    BEGIN_TIMESTAMP,
    END_PHYSICAL_OFFSET,
    END_TIMESTAMP,
    ENTRY,
    HEADER,
    HEADER_SIZE,
    SLOT_COUNT,
    SLOT_SIZE,
    entry_position,
    file_size,
    slot_position,
)
from store.index.reader import list_names
from store.mapped_file import MappedFile, reserve_file
from store.paths import StorePaths

logger = logging.getLogger(__name__)


class IndexWriter:
    """The IndexFiles of a store. `current` is the one that is written."""

    def __init__(self, paths: StorePaths, config: StoreConfig) -> None:
        self._directory = paths.index
        self._slots = config.max_hash_slot_num
        self._capacity = config.max_index_num
        self._size = file_size(self._slots, self._capacity)
        self.current: IndexCursor | None = None
        self.completed_timestamp = 0
        """End timestamp of the last file that is full, for the checkpoint; 0: none since the start."""

    def open_last(self) -> None:
        """Continues with the newest file, if there is one of the configured length that begins with keys."""
        self._directory.mkdir(parents=True, exist_ok=True)
        names = list_names(self._directory)
        if not names:
            return
        path = self._directory / names[-1]
        if path.stat().st_size != self._size:
            logger.warning("IndexFile ignored, its size differs from the configured one path=%s", path)
            return
        file = self._map(path)
        count = HEADER.unpack_from(file.view)[-1]
        if not 0 <= count <= self._capacity:
            logger.warning(
                "IndexFile ignored, its header is corrupt path=%s count=%d capacity=%d", path, count, self._capacity
            )
            file.close()
            return
        self._set_right(file, names[:-1])
        self.current = IndexCursor(file, self._slots, self._capacity)

    def with_room(self) -> IndexCursor:
        """The file of the next key: a new one if there is none or it is full. Raises StoreFull, OSError.

        compat: RocketMQ creates it before it checks whether the record has keys, so a new file may stay empty for a while.
        """
        current = self.current
        if current is None or current.count >= current.capacity:
            current = self.current = self._roll(current)
        return current

    def present_keys(self, physical_offset: int) -> int:
        """How many keys of the record at this offset, the last one indexed, are already in the files."""
        count = 0
        for name in reversed(list_names(self._directory)):
            path = self._directory / name
            if path.stat().st_size != self._size:
                break
            with open(path, "rb", buffering=0) as file:
                indexed = min(HEADER.unpack(file.read(HEADER_SIZE))[-1], self._capacity)
                for number in range(indexed - 1, 0, -1):
                    data = os.pread(file.fileno(), ENTRY.size, entry_position(self._slots, number))
                    if ENTRY.unpack(data)[1] != physical_offset:
                        return count
                    count += 1
        return count

    def clean_expired(self, min_offset: int) -> Iterator[None]:
        """Deletes the oldest files that end before the log's `min_offset`, never the newest; a step is one file."""
        for name in list_names(self._directory)[:-1]:
            path = self._directory / name
            header = self._read_header(path)
            if header is not None and header[3] >= min_offset:
                return
            os.unlink(path)
            fault_point("index.file_deleted")
            logger.info("expired IndexFile deleted file=%s min_offset=%d", name, min_offset)
            yield

    def close(self) -> None:
        """Releases the mapping."""
        if self.current is not None:
            self.current.file.close()
            self.current = None

    def _set_right(self, file: MappedFile, older: list[str]) -> None:
        """Completes the work of a process killed in `_roll` or in `IndexCursor.put`."""
        view = file.view
        last = HEADER.unpack_from(view)[-1] - 1
        if last <= 0:
            # No key yet: the header is the end of the file before, whatever was begun on top of it.
            header = self._read_header(self._directory / older[-1]) if older else None
            view[:HEADER_SIZE] = bytes(HEADER_SIZE) if header is None else _continued(header[1], header[3])
            return
        first_offset = ENTRY.unpack_from(view, entry_position(self._slots, 1))[1].to_bytes(8, "big", signed=True)
        if last == 1 and view[END_PHYSICAL_OFFSET:SLOT_COUNT] == first_offset:
            # The first entry's begin is its own time and place, which the end says too, unless it speaks of a next one by now.
            view[BEGIN_TIMESTAMP:END_TIMESTAMP] = view[END_TIMESTAMP:BEGIN_PHYSICAL_OFFSET]
            view[BEGIN_PHYSICAL_OFFSET:END_PHYSICAL_OFFSET] = view[END_PHYSICAL_OFFSET:SLOT_COUNT]
        key_hash = ENTRY.unpack_from(view, entry_position(self._slots, last))[0]
        slot_at = slot_position(key_hash % self._slots)
        number = last.to_bytes(SLOT_SIZE, "big")
        if view[slot_at : slot_at + SLOT_SIZE] != number:
            view[slot_at : slot_at + SLOT_SIZE] = number
            logger.info("last entry of IndexFile relinked file=%s entry=%d", file.path.name, last)

    def _read_header(self, path: Path) -> tuple[int, int, int, int, int, int] | None:
        with open(path, "rb", buffering=0) as file:
            data = file.read(HEADER_SIZE)
        return HEADER.unpack(data) if len(data) == HEADER_SIZE else None

    def _roll(self, full: IndexCursor | None) -> IndexCursor:
        path = self._directory / self._new_name()
        reserve_file(path, self._size)
        fault_point("index.file_made")
        file = self._map(path)
        if full is not None:
            file.view[:HEADER_SIZE] = _continued(full.end_timestamp, full.end_physical_offset)
            self.completed_timestamp = full.end_timestamp
            full.file.close()
        fault_point("index.file_begun")
        return IndexCursor(file, self._slots, self._capacity)

    def _map(self, path: Path) -> MappedFile:
        file = MappedFile(path, 0, self._size, writable=True)
        file.map.madvise(mmap.MADV_RANDOM)  # slots are accessed in random order
        return file

    def _new_name(self) -> str:
        """The local time to the millisecond, or one more than the newest file's if that is not later."""
        names = list_names(self._directory)
        name = format_name(datetime.fromtimestamp(time.time()))  # noqa: DTZ006  (local time is the format)
        if names and name <= names[-1]:
            newest = names[-1]
            name = format_name(parse_name(newest) + timedelta(milliseconds=1))
        return name


def _continued(end_timestamp: int, end_physical_offset: int) -> bytes:
    """The header of a file without keys. compat: it begins with the end of the file before."""
    return HEADER.pack(end_timestamp, end_timestamp, end_physical_offset, end_physical_offset, 0, 0)


def format_name(local_time: datetime) -> str:
    """The name of a file made at this local time: 17 digits."""
    return f"{local_time:%Y%m%d%H%M%S}{local_time.microsecond // 1000:03d}"


def parse_name(name: str) -> datetime:
    """The local time in a file's name."""
    return datetime.strptime(name + "000", "%Y%m%d%H%M%S%f")  # noqa: DTZ007
