"""The file `abort`: it exists while the store is in use, so one that is left shows an unclean stop.

For RocketMQ only its presence counts; its own is empty (4.9) or has a process id (5.x). Ours has

    boot id of the kernel, a space, inode number of the file itself, a newline

If both are still true, processes were killed but the machine was not: all that they wrote is in the page cache, in the order in which they wrote it.
After a power cut the boot id differs, and in a copy of the store the inode number: there any page may be older than any other. After a failed
sync the kernel may read an older page again, so whoever sees one empties the file.

Written by the supervisor when recovery has ended, emptied by flush and housekeeper, read by recovery.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def write_abort(fd: int) -> None:
    """Fills the file, open for writing. Raises OSError."""
    line = _expected(fd)
    os.ftruncate(fd, len(line))
    os.pwrite(fd, line, 0)


def distrust(path: Path) -> None:
    """Empties the file after a failed sync."""
    with contextlib.suppress(OSError):
        os.truncate(path, 0)


def is_same_boot(path: Path) -> bool:
    """Whether the file says that no write to the store can have been lost: it was made under the running kernel, in this place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        line = _expected(fd)
        return line != b"" and os.pread(fd, len(line) + 1, 0) == line
    except OSError:
        return False
    finally:
        os.close(fd)


def _expected(fd: int) -> bytes:
    """Empty where /proc does not tell the boot id."""
    try:
        boot_id = _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""
    return b"%s %d\n" % (boot_id, os.fstat(fd).st_ino)
