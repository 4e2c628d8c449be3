"""ConsumeQueue files on disk: of full length from the start, with blocks reserved slightly ahead of the write.

Reserving whole files would take too much space (50,000 queues of 6 MB are 300 GB), and a write into a mapping without blocks kills the process
if the disk is full. Only dispatch creates these files, so one temporary name is sufficient; it is in a folder where RocketMQ ignores
files, and a process killed here leaves nothing that looks like a file of a queue.
"""

import errno
import os
from pathlib import Path

from store.disk import free_bytes
from store.errors import StoreFull

RESERVED_BYTES = 64 * 1024  # limit: 3,276 entries; small against 50,000 queues, large against a system call
_TEMPORARY_NAME = ".making"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def make_sparse_file(path: Path, size_bytes: int) -> None:
    """Creates a file of zeros of this length, and its directories, without blocks, atomically.

    `path` is `<consumequeue>/<topic>/<queue id>/<name>`. Raises StoreFull, OSError.
    """
    temporary = path.parents[2] / _TEMPORARY_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        try:
            os.ftruncate(fd, size_bytes)
        finally:
            os.close(fd)
        temporary.rename(path)
    except OSError as error:
        raise _said(error, path, size_bytes) from error


def reserve_ahead(fd: int, path: Path, position: int, size_bytes: int) -> int:
    """Reserves blocks of a file from `position` on and returns their end. Raises StoreFull, OSError."""
    end = min(position + RESERVED_BYTES, size_bytes)
    try:
        os.posix_fallocate(fd, position, end - position)
    except OSError as error:
        raise _said(error, path, end - position) from error
    return end


def _said(error: OSError, path: Path, size_bytes: int) -> Exception:
    if error.errno in _NO_SPACE:
        return StoreFull(path, size_bytes, free_bytes(path.parents[2]))
    return error
