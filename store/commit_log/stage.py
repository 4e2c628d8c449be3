"""Stage: memory in which the records of a batch are collected until they are written to their CommitLog file.

                begin             wrote_offset
    file    ──────|===================|──────────
                  ▲ one pwrite before the batch is published
    stage         |===================|          its first byte is the one at `begin`

After each write the next batch begins at the stage's first byte again. So the same few pages, which are in the processor's cache, serve every
batch, and no page is asked of the kernel. A batch that fills a file is written in two parts, one for each file.

Each batch passes through here, with SYNC_FLUSH while caches are cold, so this is a hot module (types in the `.pxd`). For the log writer only.
"""

import contextlib
import errno
import logging
import mmap
import os
from collections.abc import Callable

from store.mapped_file import MappedFile

_MAP_NORESERVE = 0x4000  # the mmap module has no name for it
_KEPT_BYTES = 512 * 1024  # limit: memory that stays with the stage after a larger batch; a multiple of the page size

logger = logging.getLogger(__name__)


class Stage:
    """As long as a file, so that any batch fits; memory is used as far as batches are long. `file_for(offset)` finds a reserved file; it raises OSError."""

    def __init__(self, size_bytes: int, file_for: Callable[[int], MappedFile]) -> None:
        """Raises OSError where the kernel refuses so much memory, although little of it is used at a time."""
        self._memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        with contextlib.suppress(OSError):  # a kernel without large pages
            self._memory.madvise(mmap.MADV_NOHUGEPAGE)
        self.view = memoryview(self._memory)
        self._file_for = file_for
        self._begin = 0
        self._fd = -1
        self._file_start = self._file_end = 0
        self.failure = ""
        """Why records could not be written; as final as a failed sync."""

    def begin(self, offset: int) -> None:
        """The next batch begins at physical offset `offset`. Everything before it is written."""
        self._begin = offset

    def write(self, end: int) -> None:
        """Writes the batch, which ends at physical offset `end`, to its file, and begins the next one there. Raises OSError, from then on always."""
        if self.failure:
            raise OSError(errno.EIO, self.failure)
        length = end - self._begin
        done = 0
        try:
            if not self._file_start <= self._begin < self._file_end:
                file = self._file_for(self._begin)
                self._fd, self._file_start, self._file_end = file.fd, file.start_offset, file.end_offset
            while done < length:
                done += os.pwrite(self._fd, self.view[done:length], self._begin + done - self._file_start)
        except OSError as error:
            self.failure = f"the CommitLog cannot be written: {error}"
            logger.critical(
                "CommitLog write failed, the broker refuses writes error=%r offset=%d", str(error), self._begin + done
            )
            raise
        self._begin = end
        if length > _KEPT_BYTES:
            self._memory.madvise(mmap.MADV_DONTNEED, _KEPT_BYTES, length - _KEPT_BYTES)

    def end_file(self, end: int) -> bool:
        """The same for the last part of a file. False if it cannot be written; then `write` will raise OSError."""
        try:
            self.write(end)
        except OSError:
            return False
        return True
