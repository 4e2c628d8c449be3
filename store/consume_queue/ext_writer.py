"""Writes the units of extended ConsumeQueues (`enableConsumeQueueExt`). For dispatch only.

A unit is found by its address, which is the tags code of the queue's entry: a unit without an entry is never read. So a
restarted writer continues after the unit of the queue's last entry, and overwrites the rest.
"""

import os
from pathlib import Path

from headrace.protocol.consume_queue_layout import (
    EXT_ADDRESS_BASE,
    EXT_END_OF_FILE,
    EXT_END_SIZE,
    EXT_UNIT_HEAD,
    EXT_UNIT_HEAD_SIZE,
    EXT_UNIT_SIZE_MAX,
)
from store.consume_queue.sparse_file import make_sparse_file, reserve_ahead
from store.mapped_file import MappedFile
from store.mapped_file_queue import list_starts
from store.paths import file_name

_SIZE_OPTION = "mappedFileSizeConsumeQueueExt"


class ConsumeQueueExtWriter:
    """The units of one queue: `directory` is `consumequeue_ext/<topic>/<queue id>`."""

    def __init__(self, directory: Path, file_size: int, last_address: int | None) -> None:
        """`last_address` is the address in the queue's last entry; None if it has none. Raises WrongFileLength."""
        self._directory = directory
        self._file_size = file_size
        self._file: MappedFile | None = None
        self._limit = 0
        starts = list_starts(directory, file_size, _SIZE_OPTION)
        self._position = starts[0] if starts else 0
        if last_address is not None and starts:
            self._position = last_address - EXT_ADDRESS_BASE
            file = self._map()
            at = self._position - file.start_offset
            self._position += int.from_bytes(file.view[at : at + 2], "big", signed=True)

    def put(self, tags_code: int, store_timestamp: int, bit_map: bytes) -> int | None:
        """Appends a unit; returns its address, None if it is too long. Raises StoreFull, OSError."""
        size = EXT_UNIT_HEAD_SIZE + len(bit_map)
        if size > EXT_UNIT_SIZE_MAX or size > self._file_size - EXT_END_SIZE:
            return None
        start = self._position - self._position % self._file_size
        if size > start + self._file_size - self._position - EXT_END_SIZE:
            self._write(EXT_END_OF_FILE.to_bytes(2, "big", signed=True))
            self._position = start + self._file_size
        unit = EXT_UNIT_HEAD.pack(size, tags_code, store_timestamp, len(bit_map)) + bit_map
        self._write(unit)
        address = EXT_ADDRESS_BASE + self._position
        self._position += size
        return address

    def clean_expired(self, first_address: int) -> None:
        """Deletes the files that end before the unit of the queue's first entry."""
        first = first_address - EXT_ADDRESS_BASE
        for start in list_starts(self._directory, self._file_size, _SIZE_OPTION):
            if start + self._file_size > first:
                return
            os.unlink(self._directory / file_name(start))

    def close(self) -> None:
        """Releases the mapping."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, data: bytes) -> None:
        file = self._map()
        at = self._position - file.start_offset
        while self._limit < at + len(data):
            self._limit = reserve_ahead(file.fd, file.path, self._limit, self._file_size)
        file.view[at : at + len(data)] = data

    def _map(self) -> MappedFile:
        start = self._position - self._position % self._file_size
        if self._file is None or self._file.start_offset != start:
            self.close()
            path = self._directory / file_name(start)
            if not path.exists():
                make_sparse_file(path, self._file_size)
            self._file = MappedFile(path, start, self._file_size, writable=True, size_option=_SIZE_OPTION)
            self._limit = self._position - start
        return self._file
