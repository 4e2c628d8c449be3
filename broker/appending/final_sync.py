"""Syncs the end of the CommitLog once, before a stopping broker stores the progress of its deliveries.

While it runs it waits for the flush role instead. At the stop that would be too late: flush ends after the broker, and the machine may die in between.
"""

import os
from pathlib import Path

from store.paths import file_name


def sync_log(directory: Path, file_size: int, begin: int, end: int) -> None:
    """Syncs the files of the log between two physical offsets. Deleted files are skipped. Raises OSError."""
    if begin >= end:
        return
    for start in range(begin - begin % file_size, end, file_size):
        try:
            fd = os.open(directory / file_name(start), os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)
