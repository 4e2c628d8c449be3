"""The descriptors with which flush syncs CommitLog files, opened when a file is reserved and kept open.

The kernel reports a failed write-back to those who had the file open; a flusher that opens late can miss it.
"""

import os

from store.mapped_file import path_of
from store.paths import StorePaths


class LogFiles:
    """A descriptor for each CommitLog file that is reserved and not yet wholly durable."""

    def __init__(self, paths: StorePaths, file_size: int) -> None:
        self._paths = paths
        self._file_size = file_size
        self._fds: dict[int, int] = {}

    def open_reserved(self, flushed_offset: int, allocated_offset: int) -> None:
        """Opens what has been reserved since, from the file that holds `flushed_offset` on; closes files before it.

        A file that is listed as reserved but not there is left for `fd_of` to complain about.
        """
        first = flushed_offset - flushed_offset % self._file_size
        for start in [start for start in self._fds if start < first]:
            os.close(self._fds.pop(start))
        for start in range(first, allocated_offset, self._file_size):
            if start not in self._fds:
                try:
                    self._fds[start] = self._open(start)
                except FileNotFoundError:
                    continue

    def has_before(self, min_offset: int) -> bool:
        """Whether a file is open that ends at or before this offset, and so has been deleted."""
        return any(start + self._file_size <= min_offset for start in self._fds)

    def fd_of(self, file_start: int) -> int:
        """The descriptor of the file that begins there. Raises FileNotFoundError."""
        if file_start not in self._fds:
            self._fds[file_start] = self._open(file_start)
        return self._fds[file_start]

    @property
    def open_starts(self) -> list[int]:
        """The start offsets of the open files, in order."""
        return sorted(self._fds)

    def close(self) -> None:
        """Closes all."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def _open(self, start: int) -> int:
        return os.open(path_of(self._paths.commit_log, start), os.O_RDONLY | os.O_CLOEXEC)
