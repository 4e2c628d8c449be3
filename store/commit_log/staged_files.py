"""The CommitLog files that are being appended to with SYNC_FLUSH: records are collected in memory (`stage`), and written when they are published.

Stores into a mapping would make each sync slow. The kernel notices a change of a mapped page by a fault, so a sync first has to make all changed
pages read-only again, and interrupts the processor of the log writer for each of them: 14 microseconds a page, while a write of the same bytes needs no fault and no
interrupt. 64 synchronous producers got 1.2 to 1.6 times the rate (bench/RESULTS.md). Where nobody waits for syncs, they are few, and a mapping is faster.

Zeros are written ahead here too: they bring the file's blocks to the disk by one sync, instead of a change of the file's metadata in each.
"""

import logging

from store.commit_log.appended_files import AppendedFiles
from store.commit_log.stage import Stage
from store.config import StoreConfig
from store.mapped_file import MappedFile
from store.paths import StorePaths

logger = logging.getLogger(__name__)


class StagedFiles(AppendedFiles):
    """Opens reserved files, and writes them through its `stage`. For the log writer only.

    Where the kernel refuses the stage's memory, the files are mapped instead: slower, and as safe.
    """

    def __init__(self, paths: StorePaths, config: StoreConfig) -> None:
        super().__init__(paths, config)
        try:
            self.stage = Stage(config.mapped_file_size_commit_log, self._file_for)
        except OSError as error:
            logger.warning(
                "memory for collecting records not available, records are stored into mapped files error=%r", str(error)
            )

    @property
    def failure(self) -> str:
        """Why records could not be written; as final as a failed sync."""
        return self.stage.failure if self.stage else ""

    def open(self, start: int) -> memoryview:
        """The memory for the records of the reserved file that begins at `start`. Raises FileNotFoundError, WrongFileLength."""
        if self.stage is None:
            return super().open(start)
        self._file_for(start)
        return self.stage.view

    def _map_pages(self, file: MappedFile, first: int, last: int) -> None:
        if self.stage is None:
            super()._map_pages(file, first, last)
