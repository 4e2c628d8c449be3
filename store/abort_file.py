"""The file `abort`: it exists while the store is in use, so one that is left shows an unclean stop.

For RocketMQ only its presence counts; its own is empty (4.9) or has a process id (5.x). Ours has

    boot id of the kernel, a space, number of the device, inode number and creation time (ns) of the file itself as `device:inode:created`, a newline
    "dispatched", a newline: once dispatch had nothing left to do after this start

If boot id and numbers are still true, processes were killed but the machine was not: all that they wrote is in the page cache, in the order in which they
wrote it. After a power cut the boot id differs, and in a copy of the store one of the numbers: there any page may be older than any other. The creation time
tells a copy whose file got the inode of the deleted one; it is 0 where the file system has none. After a failed sync the kernel may read an
older page again, so whoever sees one empties the file.

The second line is not there at once because dispatch may have to fill gaps between entries that recovery has kept. From then on it works in the
order of the log, in batches: when it is killed, everything before its last batch is in the indexes.

Written by the supervisor when recovery has ended, and by the broker before it serves; emptied by flush and housekeeper; read by recovery.
"""

import contextlib
import ctypes
import os
import struct
from pathlib import Path
from typing import Final

DISPATCH_BATCH_BYTES: Final = 1 << 20
"""A batch of dispatch begins at most so many bytes before the begin of its last record. limit: a millisecond with records of 1 KiB; held pulls wait for its end."""

_DISPATCHED: Final = b"dispatched\n"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

# statx(2): Python's os.stat has no creation time.
_AT_EMPTY_PATH: Final = 0x1000
_STATX_BTIME: Final = 0x800
_STATX_BYTES: Final = 256
_MASK: Final = struct.Struct("=I")
_BTIME: Final = struct.Struct("=qI")
_BTIME_AT: Final = 80
_statx = getattr(ctypes.CDLL(None), "statx", None)  # glibc before 2.28 has none


def write_abort(fd: int) -> None:
    """Fills the file, open for writing. Raises OSError."""
    line = _expected(fd)
    os.ftruncate(fd, len(line))
    os.pwrite(fd, line, 0)


def note_dispatched(path: Path) -> None:
    """Adds the second line if the first one is true: it is not after a failed sync."""
    _holds(path, b"", add=_DISPATCHED)


def distrust(path: Path) -> None:
    """Empties the file after a failed sync."""
    with contextlib.suppress(OSError):
        os.truncate(path, 0)


def is_same_boot(path: Path) -> bool:
    """Whether the file says that no write to the store can have been lost: it was made under the running kernel, in this place."""
    return _holds(path, b"") or was_dispatched(path)


def was_dispatched(path: Path) -> bool:
    """Whether, besides, both indexes have all of the log except the last batch of dispatch."""
    return _holds(path, _DISPATCHED)


def _holds(path: Path, second: bytes, add: bytes = b"") -> bool:
    """Whether these are the lines of the file, and the first one is true. If so, a line may be added."""
    try:
        fd = os.open(path, (os.O_RDWR if add else os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        first = _expected(fd)
        lines = first + second
        is_so = first != b"" and os.pread(fd, len(lines) + 1, 0) == lines
        if is_so and add:
            os.pwrite(fd, add, len(lines))
    except OSError:
        return False
    else:
        return is_so
    finally:
        os.close(fd)


def _expected(fd: int) -> bytes:
    """Empty where /proc does not tell the boot id."""
    try:
        boot_id = _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""
    status = os.fstat(fd)
    return b"%s %d:%d:%d\n" % (boot_id, status.st_dev, status.st_ino, _creation_ns(fd))


def _creation_ns(fd: int) -> int:
    """When the file was created, ns; 0 if the file system does not say."""
    found = ctypes.create_string_buffer(_STATX_BYTES)
    if _statx is None or _statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, found) != 0:
        return 0
    if not _MASK.unpack_from(found)[0] & _STATX_BTIME:
        return 0
    seconds, nanoseconds = _BTIME.unpack_from(found, _BTIME_AT)
    return int(seconds * 10**9 + nanoseconds)
