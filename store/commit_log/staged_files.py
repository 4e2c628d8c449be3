"""The CommitLog files that are being appended to with SYNC_FLUSH: records are collected in memory, and written when they are published.

    append ──► stage, anonymous memory ──► publish: one pwrite for the batch ──► file

Stores into a mapping would make each sync slow. The kernel notices a change of a mapped page by a fault, so a sync first has to make all changed
pages read-only again, and interrupts the processor of the log writer for each of them: 14 microseconds a page, while a write of the same bytes needs no fault and no
interrupt. 64 synchronous producers got 1.2 to 1.6 times the rate (bench/RESULTS.md). Where nobody waits for syncs, they are few, and a mapping is faster.

Zeros are written ahead here too: they bring the file's blocks to the disk by one sync, instead of a change of the file's metadata in each.
"""

import contextlib
import errno
import logging
import mmap
import os

from store.commit_log.appended_files import AppendedFiles
from store.config import StoreConfig
from store.mapped_file import MappedFile
from store.paths import StorePaths

_MAP_NORESERVE = 0x4000  # the mmap module has no name for it
_PAGE = mmap.PAGESIZE
_FREED_BYTES = 256 * 1024  # limit: how much of a stage is given back at once; fits a processor's cache

logger = logging.getLogger(__name__)


class StagedFiles(AppendedFiles):
    """Opens reserved files, and writes them. For the log writer only.

    A stage is as long as its file, so that records have the same place in both; what has been written is given back.
    """

    def __init__(self, paths: StorePaths, config: StoreConfig, wrote_offset: int) -> None:
        """`wrote_offset`: where the log ends."""
        super().__init__(paths, config)
        self._written_offset = wrote_offset
        self._freed_offset = wrote_offset // _PAGE * _PAGE
        self._stages: dict[int, mmap.mmap] = {}
        """By the start of the file; more than one while a batch begins in one file and ends in the next."""

    def open(self, start: int) -> memoryview:
        """The stage of the reserved file that begins at `start`. Raises FileNotFoundError, WrongFileLength.

        Where the kernel refuses so much memory, although little of it is used at a time, it is the mapping: slower, and as safe.
        """
        size = self._file_for(start).size_bytes
        try:
            stage = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        except OSError as error:
            logger.warning(
                "memory for collecting records not available, records stored into the mapped file start=%d error=%r",
                start,
                str(error),
            )
            return super().open(start)
        with contextlib.suppress(OSError):  # a kernel without large pages
            stage.madvise(mmap.MADV_NOHUGEPAGE)
        self._stages[start] = stage
        return memoryview(stage)

    def write(self, end: int) -> None:
        """Writes the records up to physical offset `end`. Raises OSError, from then on always; `failure` says why."""
        if self.failure:
            raise OSError(errno.EIO, self.failure)
        while (begin := self._written_offset) < end:
            try:
                file = self._file_for(begin)
                stage = self._stages.get(file.start_offset)
                first, last = begin - file.start_offset, min(end, file.end_offset) - file.start_offset
                written = last - first if stage is None else os.pwrite(file.fd, memoryview(stage)[first:last], first)
            except OSError as error:
                self.failure = f"the CommitLog cannot be written: {error}"
                logger.critical(
                    "CommitLog write failed, the broker refuses writes error=%r offset=%d",
                    str(error),
                    begin,
                )
                raise
            self._written_offset += written
            if self._written_offset == file.end_offset:
                # The appender may still have its view; the memory goes with the last of both.
                self._stages.pop(file.start_offset, None)
            elif stage is not None and self._written_offset - self._freed_offset >= _FREED_BYTES:
                self._free(stage, file.start_offset)

    def _free(self, stage: mmap.mmap, start: int) -> None:
        """Gives back the pages of a file's stage that have been written."""
        before = max(self._freed_offset - start, 0)
        written = (self._written_offset - start) // _PAGE * _PAGE
        stage.madvise(mmap.MADV_DONTNEED, before, written - before)
        self._freed_offset = start + written

    def _map_pages(self, file: MappedFile, first: int, last: int) -> None:
        """Nothing: the file is not accessed through its mapping."""
