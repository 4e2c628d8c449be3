"""Wipes the bytes beyond the end of the log in place: the files keep their length.

Bytes copied but never published are often complete records that begin exactly where the next ones will end; they
could reappear in a later recovery. So the log writer wipes them first: a restarted writer from
`wrote_offset` to `append_limit`, recovery everything.

After a kill in the middle, the next writer wipes all of it again. The wipe is durable when `wipe`
returns: otherwise a power cut could restore old bytes after a new record.
"""

import os

from store.config import StoreConfig
from store.fault_point import fault_point
from store.mapped_file import path_of, sync_file, wipe_range
from store.paths import StorePaths


def wipe(paths: StorePaths, config: StoreConfig, start: int, end: int) -> None:
    """Sets the bytes of the log from physical offset `start` to `end` to zero, durably; missing files are skipped.

    For the log writer and recovery only. Raises OSError, SyncFailed.
    """
    size = config.mapped_file_size_commit_log
    for file_start in range(start - start % size, end, size):
        path = path_of(paths.commit_log, file_start)
        try:
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            first = max(start - file_start, 0)
            wipe_range(fd, first, min(end - file_start, size) - first)
            fault_point("tail.wiped")
            sync_file(fd, path)
        finally:
            os.close(fd)
