"""The mappings with which flush syncs CommitLog files, made when a file is reserved and kept.

The kernel reports a failed write-back to those who had the file open; a flusher that opens late can miss it.

A large sync takes its own pages only (msync). A small one takes all pages of the file that are not written yet, which are those of zeros that the log writer has
populated ahead: the first write to a reserved block changes the file's metadata, and so this is done once for the many small syncs that follow. Nothing
beyond the range needs to be durable: recovery and the writer sync what they wipe.
"""

import mmap
import os

from store.mapped_file import path_of
from store.paths import StorePaths

_SMALL_BYTES = 64 << 10  # limit: syncs up to this size take all that is not written yet


class LogFiles:
    """A mapping for each CommitLog file that is reserved and not yet wholly durable. Nothing is written through it."""

    def __init__(self, paths: StorePaths, file_size: int) -> None:
        self._paths = paths
        self._file_size = file_size
        self._maps: dict[int, mmap.mmap] = {}
        self._seen_first = self._seen_allocated = -1

    def open_reserved(self, flushed_offset: int, allocated_offset: int) -> None:
        """Opens what has been reserved since, from the file that holds `flushed_offset` on; closes files before it.

        A file that is listed as reserved but not there is left for `sync` to complain about.
        """
        first = flushed_offset - flushed_offset % self._file_size
        if first == self._seen_first and allocated_offset == self._seen_allocated:
            return  # as after almost every sync
        self._seen_first, self._seen_allocated = first, allocated_offset
        for start in [start for start in self._maps if start < first]:
            self._maps.pop(start).close()
        for start in range(first, allocated_offset, self._file_size):
            if start not in self._maps:
                try:
                    self._maps[start] = self._open(start)
                except FileNotFoundError:
                    continue

    def has_before(self, min_offset: int) -> bool:
        """Whether a file is open that ends at or before this offset, and so has been deleted."""
        for start in self._maps:
            if start + self._file_size <= min_offset:
                return True
        return False

    def sync(self, file_start: int, begin: int, end: int) -> None:
        """Makes the bytes from physical offset `begin` to `end` durable, which are in the file that begins at `file_start`. Raises OSError."""
        if file_start not in self._maps:
            self._maps[file_start] = self._open(file_start)
        if end - begin <= _SMALL_BYTES:
            self._maps[file_start].flush()
        else:
            first = (begin - file_start) // mmap.PAGESIZE * mmap.PAGESIZE
            self._maps[file_start].flush(first, end - file_start - first)

    @property
    def open_starts(self) -> list[int]:
        """The start offsets of the open files, in order."""
        return sorted(self._maps)

    def close(self) -> None:
        """Closes all."""
        for opened in self._maps.values():
            opened.close()
        self._maps.clear()

    def _open(self, start: int) -> mmap.mmap:
        fd = os.open(path_of(self._paths.commit_log, start), os.O_RDWR | os.O_CLOEXEC)
        try:
            # Writable, because msync and Python's `flush` do nothing for a mapping that is not.
            return mmap.mmap(fd, self._file_size)
        finally:
            os.close(fd)
