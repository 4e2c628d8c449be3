"""Reads the published part of the CommitLog, from `min_offset` to `wrote_offset`, directly from the mapping.

Every process may have a reader; none may read beyond `wrote_offset`, where a record may be incomplete. The results are
views of the mapping: they copy nothing, and stay valid if the file is deleted meanwhile.
"""

from typing import Protocol

from store.commit_log.record_check import REASONS, check_record, store_timestamp_of
from store.config import StoreConfig
from store.errors import CorruptRecord
from store.mapped_file import MappedFile
from store.mapped_file_queue import MappedFileQueue
from store.paths import StorePaths


class PublishedOffsets(Protocol):
    """The cells that limit what may be read: a ControlBlock has them."""

    @property
    def min_offset(self) -> int:
        """First physical offset that is still stored."""

    @property
    def wrote_offset(self) -> int:
        """End of the last complete record."""


class CommitLogReader:
    """The published bytes of the log. One for each process; not for several threads."""

    def __init__(self, paths: StorePaths, config: StoreConfig, control: PublishedOffsets) -> None:
        self.file_size = config.mapped_file_size_commit_log
        self._files = MappedFileQueue(paths.commit_log, self.file_size, size_option="mappedFileSizeCommitLog")
        self._control = control
        self._current: MappedFile | None = None

    def file_for(self, offset: int) -> MappedFile | None:
        """The mapped file that contains this offset; None if it is deleted or not yet reserved."""
        current = self._current
        if current is not None and current.start_offset <= offset < current.end_offset:
            return current
        self._files.forget_before(self._control.min_offset)
        self._current = self._files.file_for(offset)
        return self._current

    def release_deleted(self) -> None:
        """Releases the files below `min_offset`. Cheap if nothing has changed: every process that reads the log calls it often."""
        min_offset = self._control.min_offset
        if self._current is not None and self._current.end_offset <= min_offset:
            self._current = None
        self._files.forget_before(min_offset)

    def read(self, offset: int, size_bytes: int) -> memoryview | None:
        """Exactly these bytes, or None if they are not all published, still stored, and in one file."""
        if offset < self._control.min_offset or size_bytes < 0 or offset + size_bytes > self._control.wrote_offset:
            return None
        file = self.file_for(offset)
        if file is None or offset + size_bytes > file.end_offset:
            return None
        position = offset - file.start_offset
        return file.view[position : position + size_bytes]

    def read_on(self, offset: int) -> memoryview | None:
        """The published bytes from this offset to the end of its file or of the log; None if there are none."""
        end = self._control.wrote_offset
        if offset < self._control.min_offset or offset >= end:
            return None
        file = self.file_for(offset)
        if file is None:
            return None
        start = file.start_offset
        return file.view[offset - start : min(end - start, file.size_bytes)]

    def record_at(self, offset: int) -> memoryview | None:
        """The record that begins here; None if nothing is published or stored here, or a blank record begins here.

        Raises CorruptRecord if the published bytes are not a record (lengths, magic, physical offset; not the CRC).
        """
        size = self.record_size_at(offset)
        return None if size is None else self.read(offset, size)

    def copy_record(self, offset: int) -> bytes | None:
        """The complete record that begins at an offset given by a client; None if none is published or stored, or none begins here.

        Stricter than RocketMQ, which takes the four bytes at any offset for a size and sends what follows.
        """
        try:
            record = self.record_at(offset)
        except CorruptRecord:
            return None
        return None if record is None else bytes(record)

    def record_size_at(self, offset: int) -> int | None:
        """The size in bytes of the record that begins here; None and CorruptRecord as in `record_at`."""
        data = self.read_on(offset)
        if data is None:
            return None
        size = check_record(data, 0, len(data), offset, check_crc=False)
        if size < 0:
            raise CorruptRecord(offset, REASONS[size])
        return size or None

    def is_kept(self, offset: int) -> bool:
        """Whether this offset is within the published log."""
        return self._control.min_offset <= offset < self._control.wrote_offset

    def store_timestamp_at(self, offset: int, size_bytes: int) -> int:
        """The store timestamp in ms of the record here; -1 unless it is whole and `size_bytes` can be read from here on (store spec, 2.9)."""
        data = self.read(offset, size_bytes)
        if data is None or check_record(data, 0, len(data), offset, check_crc=False) <= 0:
            return -1
        return store_timestamp_of(data, 0)

    def close(self) -> None:
        """Releases all mappings."""
        self._current = None
        self._files.close()
