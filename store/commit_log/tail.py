"""Wipes what lies beyond the end of the log, in place: the files keep their length.

Bytes copied but never published are often whole records that lie exactly where the next ones would end; left alone they
could come back to life in a later recovery. So whoever becomes the log's writer wipes first: a restarted writer from
`wrote_offset` to `append_limit`, recovery everything.

A kill in the middle leaves a part of it wiped; the next one wipes all of it again. What is wiped is durable when `wipe`
returns: else a power cut could bring the old bytes back under a new record.
"""

import os

from store.config import StoreConfig
from store.fault_point import fault_point
from store.mapped_file import path_of, sync_file, wipe_range
from store.paths import StorePaths


def wipe(paths: StorePaths, config: StoreConfig, start: int, end: int) -> None:
    """Makes the log's bytes from physical offset `start` up to `end` zero, durably; files that do not exist are passed over.

    For the log's writer and recovery only. Raises OSError, SyncFailed.
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
