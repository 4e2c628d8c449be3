"""MappedFile: one file of fixed length, completely mapped into memory; its name is its first offset.

A file is reserved first (`reserve_file`: its blocks exist) and mapped afterwards, so that a full disk is an error in the
housekeeper and never a SIGBUS in a writer. A mapping outlives its file's name, so files can be deleted at any time.

Readers must not read beyond published offsets, which this class does not know.
"""

import ctypes
import errno
import mmap
import os
import sys
from pathlib import Path

from store.disk import free_bytes
from store.errors import StoreFull, SyncFailed, WrongFileLength
from store.paths import file_name

_FALLOCATE_KEEP_SIZE = 0x01
_FALLOCATE_PUNCH_HOLE = 0x02
_FALLOCATE_ZERO_RANGE = 0x10
_REFUSED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_ZEROS = bytes(1 << 20)

_libc = ctypes.CDLL(None, use_errno=True)
_fallocate = _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
_fallocate.restype = ctypes.c_int
_syncfs = _libc.syncfs
_syncfs.argtypes = (ctypes.c_int,)
_syncfs.restype = ctypes.c_int
_statfs = _libc.statfs
_statfs.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
_statfs.restype = ctypes.c_int
_STATFS_SIZE = 120  # `struct statfs`: begins with the type, see statfs(2)
_SYNCED_AS_A_WHOLE = {0xEF53, 0x58465342, 0x9123683E}  # ext4, XFS, Btrfs


class MappedFile:
    """A mapping of a whole file, its descriptor, and where it begins in its stream of files."""

    __slots__ = ("end_offset", "fd", "map", "path", "size_bytes", "start_offset", "view")

    def __init__(
        self, path: Path, start_offset: int, size_bytes: int, writable: bool, size_option: str = "its file size"
    ) -> None:
        """Maps an existing file. Raises FileNotFoundError, and WrongFileLength unless it is exactly `size_bytes` long."""
        self.path = path
        self.start_offset = start_offset
        self.size_bytes = size_bytes
        self.end_offset = start_offset + size_bytes
        self.fd = os.open(path, (os.O_RDWR | os.O_NOFOLLOW if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            length = os.fstat(self.fd).st_size
            if length != size_bytes:
                raise WrongFileLength(path, length, size_bytes, size_option)
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self.map = mmap.mmap(self.fd, size_bytes, access=access)
        except BaseException:
            os.close(self.fd)
            raise
        self.view = memoryview(self.map)

    def __repr__(self) -> str:
        return f"MappedFile({self.path})"

    def close(self) -> None:
        """Releases mapping and descriptor; a slice of the view that someone still holds keeps the mapping until it goes."""
        if self.fd < 0:
            return
        os.close(self.fd)
        self.fd = -1
        self.view.release()
        try:
            self.map.close()
        except BufferError:  # slices are out; the mapping ends with the last of them
            pass


def reserve_file(path: Path, size_bytes: int) -> None:
    """Makes a file of zeros whose blocks are all reserved; it appears under its name whole and durable, or not at all.

    An existing file of that name is left alone. Raises StoreFull when the disk has no room, OSError for other failures.
    """
    if path.exists():
        return
    try:
        _reserve(path, size_bytes)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StoreFull(path, size_bytes, free_bytes(path.parent)) from error
        raise
    sync_directory(path.parent)


def _reserve(path: Path, size_bytes: int) -> None:
    """A nameless file first: nothing is left of it if the process dies, and RocketMQ opens no directory with strangers in it."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fd = os.open(path.parent, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o640)
        except OSError as error:
            if error.errno not in (*_REFUSED, errno.EISDIR):
                raise
            _reserve_by_renaming(path, size_bytes)
            return
        try:
            os.posix_fallocate(fd, 0, size_bytes)
            os.fsync(fd)
            # A directory descriptor makes CPython call linkat, which alone follows the link to the nameless file.
            os.link(f"/proc/self/fd/{fd}", path.name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=True)
        finally:
            os.close(fd)
    finally:
        os.close(directory)


def _reserve_by_renaming(path: Path, size_bytes: int) -> None:
    """For file systems without nameless files: the file grows one directory up, where nobody counts files."""
    if path.exists():
        raise FileExistsError(path)
    growing = path.parent.parent / f".reserving-{path.parent.name}-{path.name}"
    fd = os.open(growing, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    try:
        os.posix_fallocate(fd, 0, size_bytes)
        os.fsync(fd)
        growing.rename(path)
    except BaseException:
        growing.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


def wipe_range(fd: int, position: int, length: int) -> None:
    """Makes bytes of a file zero in place, leaving their blocks reserved and the file's length as it is.

    ZERO_RANGE where the file system has it, else a hole that is filled up again, else zeros written. Not synced. Raises OSError.
    """
    if length <= 0:
        return
    if _try_fallocate(fd, _FALLOCATE_ZERO_RANGE | _FALLOCATE_KEEP_SIZE, position, length):
        return
    if _try_fallocate(fd, _FALLOCATE_PUNCH_HOLE | _FALLOCATE_KEEP_SIZE, position, length):
        os.posix_fallocate(fd, position, length)
        return
    _write_zeros(fd, position, length)


def punch_range(fd: int, position: int, length: int) -> None:
    """Makes bytes of a file zero and gives their blocks back; the length stays. Not synced. Raises OSError."""
    if length > 0 and not _try_fallocate(fd, _FALLOCATE_PUNCH_HOLE | _FALLOCATE_KEEP_SIZE, position, length):
        _write_zeros(fd, position, length)


def _write_zeros(fd: int, position: int, length: int) -> None:
    while length > 0:
        written = os.pwrite(fd, _ZEROS[: min(length, len(_ZEROS))], position)
        position += written
        length -= written


def _try_fallocate(fd: int, mode: int, position: int, length: int) -> bool:
    """Whether the file system did it; False if it does not know this mode."""
    while _fallocate(fd, mode, position, length) != 0:
        code = ctypes.get_errno()
        if code in _REFUSED:
            return False
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))
    return True


def sync_file(fd: int, path: Path) -> None:
    """Makes the bytes of a file durable. Raises SyncFailed, which is final: what a second sync says proves nothing."""
    try:
        os.fdatasync(fd)
    except OSError as error:
        raise SyncFailed(path, error) from error


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file_system(path: Path) -> bool:
    """Makes all files and names durable on the file system of this directory, whoever wrote them.

    Returns False, and does nothing, where that is not known to reach the disk: with FUSE, for one, it does not. Raises SyncFailed, as
    `sync_file` does.
    """
    figures = ctypes.create_string_buffer(_STATFS_SIZE)
    if (
        _statfs(os.fsencode(path), figures) != 0
        or int.from_bytes(figures.raw[:8], sys.byteorder) not in _SYNCED_AS_A_WHOLE
    ):
        return False
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while _syncfs(fd) != 0:
            code = ctypes.get_errno()
            if code != errno.EINTR:
                raise SyncFailed(path, OSError(code, os.strerror(code)))
    finally:
        os.close(fd)
    return True


def path_of(directory: Path, start_offset: int) -> Path:
    """The path of the mapped file that begins at this offset."""
    return directory / file_name(start_offset)
