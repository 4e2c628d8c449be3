"""The files of a ConsumeQueue in recovery: finds the end of the valid entries and truncates the rest.

Entries of a queue point to records in ascending order, so the valid entries are a prefix, found by binary search. Truncating punches a
hole into the rest of a file (its length is kept, its blocks are freed) and deletes later files. Everything can be rebuilt
from the log; a file of the wrong length is refused nevertheless, because it indicates wrong settings.
"""

import os
from collections.abc import Callable
from pathlib import Path

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE, FILLER_SIZE
from store.commit_log.record_check import check_record, count_agreeing, queue_key, queue_key_at, queue_offset_of
from store.commit_log.scanner import LogSource
from store.mapped_file import punch_range, sync_directory, sync_file
from store.mapped_file_queue import list_lengths
from store.paths import StorePaths, file_name
from store.recovery.log_survey import NO_TAIL, QueueTail
from store.recovery.queue_bounds import KeptQueue
from store.recovery.shared_work import shared_work

_SECTOR_SIZE = 512  # what a disk writes atomically
_PAGE_SIZE = 4096
_BLOCK_ENTRIES = _PAGE_SIZE // ENTRY_SIZE
_BLOCK_SIZE = _BLOCK_ENTRIES * ENTRY_SIZE  # a page is read for each, so that the first page of a file is read whole
_ZEROS = bytes(1 << 16)
_NO_ENTRY = bytes(ENTRY_SIZE)
_MULTI_DISPATCH = b"INNER_MULTI_DISPATCH\x01"


class QueueFiles:
    """The files of one queue during recovery."""

    __slots__ = (
        "_block",
        "_block_start",
        "_fd",
        "_fd_start",
        "_file_size",
        "_starts",
        "directory",
        "key",
        "queue_id",
        "topic",
    )

    def __init__(
        self, directory: str, topic: bytes, queue_id: int, file_size: int, starts: list[int] | None = None
    ) -> None:
        """Lists the files, unless `starts` says where they begin. Raises WrongFileLength, UnexpectedFile; changes nothing."""
        self.directory = directory
        self.topic = topic
        self.queue_id = queue_id
        self.key = queue_key(topic, queue_id)
        """The queue's key in a survey of the log."""
        self._file_size = file_size
        self._starts = _list_starts(directory, file_size) if starts is None else starts
        self._fd_start = -1
        self._fd = -1
        self._block_start = -1
        self._block = b""

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
        if len(self._starts) == 1:
            last = low + self._entries_in_first_block() - 1
            if low <= last < low + _BLOCK_ENTRIES - 1 and is_valid(last) and self._is_zero_in_block(last + 1):
                return self.tail_before(last + 1)
        step = _BLOCK_ENTRIES - 1  # most queues are short: a search over the whole file would read twenty holes of it
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
        directory = Path(self.directory)
        for empty in (directory, directory.parent):
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
            if offset * ENTRY_SIZE % self._file_size == 0:
                continue
            self._entry(offset)
            file = log.file_for(physical_offset)
            if file is not None:
                at = offset * ENTRY_SIZE % self._file_size - self._block_start
                entries = memoryview(self._block)[at:_BLOCK_SIZE]
                offset += count_agreeing(entries, offset, file.view, file.start_offset, end, self.key)
        if offset > first and _crosses_sectors((offset - 1) * ENTRY_SIZE % self._file_size):
            offset -= 1
        return offset

    def is_bearing_out(self, queue_offset: int, log: LogSource, start: int, end: int) -> bool:
        """Whether an entry agrees with its record, if that is between `start` and `end`; one that is before is not asked."""
        physical_offset, size, _ = self._entry(queue_offset)
        return physical_offset < start or self._agrees(log, end, physical_offset, size, queue_offset)

    def has_nothing_from(self, queue_offset: int) -> bool:
        """Whether `cut` would find nothing to remove: no file begins there or later, and the last one has only zeros from there on."""
        if not self._starts or self._end_offset * ENTRY_SIZE != self._starts[-1] + self._file_size:
            return False
        position = queue_offset * ENTRY_SIZE - self._starts[-1]
        if not 0 < position <= self._file_size:
            return False
        self._entry(queue_offset - 1)  # its block is in memory: the rest of that is compared there
        if position < self._file_size and not self._is_zero_in_block(queue_offset):
            return False
        read = self._block_start + len(self._block)
        return read >= self._file_size or _is_zero_from(self._fd, read, self._file_size)

    def kept(self, next_offset: int, log_min_offset: int) -> KeptQueue:
        """The queue if its entries end before this offset, of which there is at least one; `log_min_offset`: where the log begins."""
        first = low = self.first_offset
        # compat: the first entry of the first file whose record is still there; without one the minimum stays. In a log that
        # begins at 0 fillers match too, and the minimum falls back to the first file's start.
        end = min(first + self._file_size // ENTRY_SIZE, next_offset)
        if self.record_of(first)[0] < log_min_offset:
            high = end
            while low < high:
                middle = (low + high) // 2
                if self.record_of(middle)[0] >= log_min_offset:
                    high = middle
                else:
                    low = middle + 1
        return KeptQueue(
            topic=self.topic,
            queue_id=self.queue_id,
            min_offset=low if low < end else first,
            next_offset=next_offset,
            last=self.record_of(next_offset - 1),
            previous=self.record_of(next_offset - 2) if next_offset - 1 > first else None,
        )

    def cut(self, queue_offset: int) -> bool:
        """Removes all entries from this offset on, and files without any. True if there was something to remove.

        That is durable then: old entries must not come back behind new ones. What stays is not synced: the housekeeper takes no
        queue for durable that it has not synced itself. Raises OSError, SyncFailed.
        """
        position = queue_offset * ENTRY_SIZE
        changed = False
        for start in reversed(self._starts):
            path = Path(self.directory, file_name(start))
            if start >= position or start // ENTRY_SIZE >= self._end_offset:
                self._release()
                path.unlink()
                self._starts.remove(start)
                changed = True
            elif position < start + self._file_size:
                changed |= self._cut_file(path, position - start)
        if changed:
            sync_directory(Path(self.directory))
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
            self._fd = _open(f"{self.directory}/{file_name(start)}", os.O_RDONLY)
            self._fd_start = start
        at = position - start
        if not self._block or not self._block_start <= at < self._block_start + _BLOCK_SIZE:
            self._block_start = at - at % _BLOCK_SIZE
            self._block = os.pread(self._fd, min(_PAGE_SIZE, self._file_size - self._block_start), self._block_start)
        physical_offset, size, tags_code = ENTRY.unpack_from(self._block, at - self._block_start)
        return physical_offset, size, tags_code

    def _entries_in_first_block(self) -> int:
        """The number of entries before the first zeros that are as long as one. A valid entry has less of them."""
        self._entry(self.first_offset)
        return -(-self._block.find(_NO_ENTRY) // ENTRY_SIZE)

    def _is_zero_in_block(self, queue_offset: int) -> bool:
        """Whether the block in memory has only zeros from there on."""
        at = queue_offset * ENTRY_SIZE % self._file_size - self._block_start
        return self._block[at:] == _ZEROS[: len(self._block) - at]

    def _release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = self._fd_start = -1
        self._block = b""


def list_queues(paths: StorePaths, file_size: int, beat: Callable[[], None] = lambda: None) -> list[QueueFiles]:
    """All queues that have a directory. Raises WrongFileLength, UnexpectedFile; names that are no queues are skipped."""
    places: list[tuple[str, bytes, int]] = []
    for topic in _directories(os.fspath(paths.consume_queue)):
        beat()
        topic_name = os.fsencode(topic.name)
        places += [
            (queue.path, topic_name, int(queue.name))
            for queue in _directories(topic.path)
            if queue.name.isascii() and queue.name.isdigit()
        ]
    listed = shared_work(lambda part: [_list_starts(directory, file_size) for directory, _, _ in part], places, beat)
    return [QueueFiles(*place, file_size, starts) for place, starts in zip(places, listed, strict=True)]


def _list_starts(directory: str, file_size: int) -> list[int]:
    return list_lengths(directory, file_size, "mappedFileSizeConsumeQueue")


def _directories(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted((entry for entry in entries if entry.is_dir()), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def _open(path: str | Path, flags: int) -> int:
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
