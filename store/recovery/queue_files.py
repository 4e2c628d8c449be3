"""The files of a ConsumeQueue in recovery: finds the end of the valid entries and truncates the rest.

Entries of a queue point to records in ascending order, so the valid entries are a prefix, found by binary search. Truncating punches a
hole into the rest of a file (its length is kept, its blocks are freed) and deletes later files. Everything can be rebuilt
from the log; a file of the wrong length is refused nevertheless, because it indicates wrong settings.
"""

import os
from collections.abc import Callable
from pathlib import Path

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE, FILLER_SIZE
from store.commit_log.record_check import check_record, queue_key, queue_key_at, queue_offset_of
from store.commit_log.scanner import LogSource
from store.mapped_file import path_of, punch_range, sync_directory, sync_file
from store.mapped_file_queue import list_lengths
from store.paths import StorePaths
from store.recovery.log_survey import NO_TAIL, QueueTail

_SECTOR_SIZE = 512  # what a disk writes atomically
_PAGE_SIZE = 4096
_BLOCK_SIZE = 200 * ENTRY_SIZE  # read at once: nearly a page
_ZEROS = bytes(1 << 16)
_BLOCK_ENTRIES = _BLOCK_SIZE // ENTRY_SIZE
_MULTI_DISPATCH = b"INNER_MULTI_DISPATCH\x01"


class QueueFiles:
    """The files of one queue during recovery."""

    def __init__(self, directory: Path, topic: bytes, queue_id: int, file_size: int) -> None:
        """Lists the files. Raises WrongFileLength, UnexpectedFile; changes nothing."""
        self.directory = directory
        self.topic = topic
        self.queue_id = queue_id
        self._file_size = file_size
        self._starts = list_lengths(directory, file_size, "mappedFileSizeConsumeQueue")
        self._fd_start = -1
        self._fd = -1
        self._block_start = -1
        self._block = b""

    @property
    def key(self) -> bytes:
        """The queue's key in a survey of the log."""
        return queue_key(self.topic, self.queue_id)

    @property
    def first_offset(self) -> int:
        """The queue offset at which the files begin."""
        return self._starts[0] // ENTRY_SIZE if self._starts else 0

    @property
    def _end_offset(self) -> int:
        """The queue offset at which the files, as far as they follow each other, end."""
        end = self._starts[0] if self._starts else 0
        for start in self._starts:
            if start != end:
                break
            end += self._file_size
        return end // ENTRY_SIZE

    def find_tail(self, limit: int | None) -> QueueTail:
        """The prefix of valid entries, of records that end at or before physical offset `limit` if one is given."""

        def is_valid(queue_offset: int) -> bool:
            physical_offset, size, _ = self._entry(queue_offset)
            return physical_offset >= 0 and size > 0 and (limit is None or physical_offset + size <= limit)

        low, high = self.first_offset, self._end_offset
        step = _BLOCK_ENTRIES  # most queues are short: a search over the whole file would read twenty holes of it
        while low + step < high:
            if not is_valid(low + step):
                high = low + step
                break
            low += step + 1
            step *= 2
        while low < high:
            middle = (low + high) // 2
            if is_valid(middle):
                low = middle + 1
            else:
                high = middle
        return self.tail_before(low)

    def tail_before(self, queue_offset: int) -> QueueTail:
        """The tail if the entries end before this offset."""
        if queue_offset <= self.first_offset:
            return NO_TAIL
        physical_offset, size = self.record_of(queue_offset - 1)
        return QueueTail(queue_offset, physical_offset + size)

    def first_physical_offset(self, end: int) -> int:
        """Where the record of the first entry is that is no filler; `end` is the offset of the last entry and one more."""
        low, high = self.first_offset, end - 1
        while low < high:
            middle = (low + high) // 2
            if self.record_of(middle) == (0, FILLER_SIZE):
                low = middle + 1
            else:
                high = middle
        return self.record_of(low)[0]

    def remove(self) -> None:
        """Deletes the files, the last one first, and the directory. That is durable when this returns. Raises OSError."""
        self.cut(0)
        for empty in (self.directory, self.directory.parent):
            try:
                empty.rmdir()
            except OSError:
                break  # another queue of the topic, or a file that is none of the queue's
            sync_directory(empty.parent)

    def record_of(self, queue_offset: int) -> tuple[int, int]:
        """The physical offset and the size of the record that the entry at this offset points at."""
        physical_offset, size, _ = self._entry(queue_offset)
        return physical_offset, size

    def find_agreeing(self, first: int, log: LogSource, end: int) -> int:
        """The queue offset up to which entries from `first` on agree with the records of the log that ends at `end`.

        An entry torn between two sectors is not among them: if the last one that agrees reaches into a sector that has nothing
        else that agrees, it is left for dispatch to write again.
        """
        offset = first = max(first, self.first_offset)
        files_end = self._end_offset
        while offset < files_end:
            physical_offset, size, _ = self._entry(offset)
            if size <= 0 or physical_offset < 0 or not self._agrees(log, end, physical_offset, size, offset):
                break
            offset += 1
        if offset > first and _crosses_sectors((offset - 1) * ENTRY_SIZE % self._file_size):
            offset -= 1
        return offset

    def is_bearing_out(self, queue_offset: int, log: LogSource, start: int, end: int) -> bool:
        """Whether an entry agrees with its record, if that is between `start` and `end`; one that is before is not asked."""
        physical_offset, size, _ = self._entry(queue_offset)
        return physical_offset < start or self._agrees(log, end, physical_offset, size, queue_offset)

    def cut(self, queue_offset: int) -> bool:
        """Removes all entries from this offset on, and files without any. True if there was something to remove.

        That is durable then: old entries must not come back behind new ones. What stays is not synced: the housekeeper takes no
        queue for durable that it has not synced itself. Raises OSError, SyncFailed.
        """
        position = queue_offset * ENTRY_SIZE
        changed = False
        for start in reversed(self._starts):
            path = path_of(self.directory, start)
            if start >= position or start // ENTRY_SIZE >= self._end_offset:
                self._release()
                path.unlink()
                self._starts.remove(start)
                changed = True
            elif position < start + self._file_size:
                changed |= self._cut_file(path, position - start)
        if changed:
            sync_directory(self.directory)
        return changed

    def close(self) -> None:
        """Closes the descriptor in use."""
        self._release()

    def _cut_file(self, path: Path, position: int) -> bool:
        self._block = b""
        fd = _open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if _is_zero_from(fd, position, self._file_size):
                return False
            punch_range(fd, position, self._file_size - position)
            sync_file(fd, path)
        finally:
            os.close(fd)
        return True

    def _agrees(self, log: LogSource, end: int, physical_offset: int, size: int, queue_offset: int) -> bool:
        """Whether the record is there, of this size, and of this queue and offset."""
        if size <= 0 or physical_offset + size > end:
            return False
        file = log.file_for(physical_offset)
        if file is None:
            return False
        view, position = file.view, physical_offset - file.start_offset
        if check_record(view, position, file.size_bytes, physical_offset, check_crc=False) != size:
            return False
        if queue_key_at(view, position) == self.key:
            return queue_offset_of(view, position) == queue_offset
        # A record that names further queues has an entry in each, at offsets that only its properties know.
        return _MULTI_DISPATCH in bytes(view[position : position + size])

    def _entry(self, queue_offset: int) -> tuple[int, int, int]:
        position = queue_offset * ENTRY_SIZE
        start = position - position % self._file_size
        if start != self._fd_start:
            self._release()
            self._fd = _open(path_of(self.directory, start), os.O_RDONLY)
            self._fd_start = start
        at = position - start
        if not self._block_start <= at < self._block_start + len(self._block):
            self._block_start = at - at % _BLOCK_SIZE
            self._block = os.pread(self._fd, min(_BLOCK_SIZE, self._file_size - self._block_start), self._block_start)
        physical_offset, size, tags_code = ENTRY.unpack_from(self._block, at - self._block_start)
        return physical_offset, size, tags_code

    def _release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = self._fd_start = -1
        self._block = b""


def list_queues(paths: StorePaths, file_size: int, beat: Callable[[], None] = lambda: None) -> list[QueueFiles]:
    """All queues that have a directory. Raises WrongFileLength, UnexpectedFile; names that are no queues are skipped."""
    queues = []
    try:
        topics = sorted(entry.name for entry in os.scandir(paths.consume_queue) if entry.is_dir())
    except FileNotFoundError:
        return []
    for topic in topics:
        beat()
        for name in sorted(os.listdir(paths.consume_queue / topic)):
            directory = paths.consume_queue / topic / name
            if name.isascii() and name.isdigit() and directory.is_dir():
                queues.append(QueueFiles(directory, os.fsencode(topic), int(name), file_size))
    return queues


def _open(path: Path, flags: int) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # reading ahead would fill memory with the zeros of 50,000 files
    return fd


def _crosses_sectors(position: int) -> bool:
    return position // _SECTOR_SIZE != (position + ENTRY_SIZE - 1) // _SECTOR_SIZE


def _is_zero_from(fd: int, position: int, file_size: int) -> bool:
    """Whether a file holds nothing but zeros from there on; holes are not read."""
    length = _PAGE_SIZE - position % _PAGE_SIZE  # the rest of a page with entries; what follows is a hole or reserved
    while position < file_size:
        try:
            position = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:  # nothing but a hole up to the end
            return True
        data = os.pread(fd, min(length, file_size - position), position)
        length = len(_ZEROS)
        if data != _ZEROS[: len(data)]:
            return False
        position += len(data)
    return True
