"""The lock of a store: no other process writes to it while one of ours may.

An open-file-description lock (F_OFD_SETLK) on the first byte of the file `lock`. The supervisor takes it, children inherit
it with the descriptor, and the kernel releases it when the last of them has ended, for whatever reason. It conflicts with the record
lock that a Java broker takes on that byte, both ways.

# compat: DefaultMessageStore.start locks byte 0 of `lock` and writes the word "lock" into it.
"""

import errno
import fcntl
import os
import struct

from ipc.errors import StoreLocked

_FLOCK = struct.Struct("@hhqqi4x")  # struct flock: l_type, l_whence, l_start, l_len, l_pid (must be 0 for these locks)


class StoreLock:
    """A lock that is held. `fd` is inherited by fork; the lock lasts until it is closed everywhere."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def take(cls, path: str | os.PathLike[str]) -> "StoreLock":
        """Lock the file, which is created if missing. Never waits. Raises StoreLocked with the holders' pids."""
        text = os.fspath(path)
        fd = os.open(text, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
            os.pwrite(fd, b"lock", 0)
        except OSError as error:
            pids = find_holders(fd)
            os.close(fd)
            if error.errno in {errno.EAGAIN, errno.EACCES}:
                raise StoreLocked(text, pids) from None
            raise
        return cls(text, fd)

    def close(self) -> None:
        """Release it in this process. Children that have inherited it keep it."""
        os.close(self.fd)


def find_holders(fd: int) -> list[int]:
    """The pids of those that hold a lock on the file behind `fd`, as far as this user may look into them.

    /proc/locks has no pid for these locks, but every descriptor's fdinfo names the locks that its open file holds.
    """
    status = os.fstat(fd)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    return sorted(int(entry) for entry in os.listdir("/proc") if entry.isdecimal() and _holds(entry, status, file))


def _holds(pid: str, status: os.stat_result, file: str) -> bool:
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False  # ended meanwhile, or another user's
    for descriptor in descriptors:
        try:
            behind = os.stat(f"/proc/{pid}/fd/{descriptor}")
            if (behind.st_dev, behind.st_ino) != (status.st_dev, status.st_ino):
                continue
            with open(f"/proc/{pid}/fdinfo/{descriptor}", encoding="ascii") as info:
                if any(line.startswith("lock:") and file in line.split() for line in info):
                    return True
        except OSError:
            continue
    return False
