"""TargetArchive: the files of a target as a tar archive, whose length is known before the first file is read.

Only files and folders below the target are read, never what a link leads to. Files in the target's own folder come first, because others are never
changed: the catalog of an Iceberg table names no metadata that is missing in the archive.
"""

import errno
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn, Self

from msgspec import Struct

from web.errors import Invalid

MOST_FILES: Final = 100_000  # limit: names in memory, some 20 MB
_PIECE_BYTES: Final = 256 << 10
_BLOCK_BYTES: Final = tarfile.BLOCKSIZE
_END: Final = bytes(2 * _BLOCK_BYTES)
_STAGING: Final = "_export/staging"
"""Files of interrupted runs, which no reader of the target sees."""
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _File(Struct, frozen=True):
    name: str
    """Below the target."""
    size: int
    modified_s: int

    @property
    def padding(self) -> bytes:
        return bytes(-self.size % _BLOCK_BYTES)


class TargetArchive(Struct, frozen=True):
    """An archive of the files that were there when they were listed. Reading blocks, so call it in a thread."""

    target: Path
    files: tuple[_File, ...]
    length: int
    """Its bytes."""

    @classmethod
    def list(cls, target: Path) -> Self:
        """The archive of a target's folder. Raises OSError; Invalid if it has too many files."""
        files: list[_File] = []
        length = len(_END)
        for file in _list(target):
            if len(files) == MOST_FILES:
                raise Invalid(
                    "{name} has more than {most} files", "Copy the folder.", name=target.name, most=MOST_FILES
                )
            files.append(file)
            length += len(_header(target, file)) + file.size + len(file.padding)
        return cls(target, tuple(files), length)

    def pieces(self) -> Iterator[bytes]:
        """The archive, a piece at a time. Raises OSError, among others if a file is shorter than it was."""
        for file in self.files:
            yield _header(self.target, file)
            yield from self._content(file)
        yield _END

    def _content(self, file: _File) -> Iterator[bytes]:
        with open(_open(self.target, file.name), "rb", buffering=0) as opened:
            left = file.size
            while left:
                piece = opened.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise OSError(errno.EIO, "the file is shorter than it was", file.name)
                left -= len(piece)
                yield piece if left else piece + file.padding
            # The brokers need the memory more.
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _header(target: Path, file: _File) -> bytes:
    info = tarfile.TarInfo(f"{target.name}/{file.name}")
    info.size, info.mtime = file.size, file.modified_s
    return info.tobuf(tarfile.PAX_FORMAT)


def _list(target: Path) -> Iterator[_File]:
    """The files below a folder, those of an outer folder first. Links, sockets and the like are left out."""
    root = os.open(target, _FOLDER_FLAGS)
    try:
        for path, folders, names, folder in os.fwalk(".", onerror=_fail, dir_fd=root):
            below = path[2:]
            folders[:] = sorted(one for one in folders if os.path.join(below, one) != _STAGING)
            for name in sorted(names):
                status = os.lstat(name, dir_fd=folder)
                if stat.S_ISREG(status.st_mode):
                    yield _File(os.path.join(below, name), status.st_size, int(status.st_mtime))
    finally:
        os.close(root)


def _fail(error: OSError) -> NoReturn:
    raise error


def _open(target: Path, name: str) -> int:
    """Opens a file below a folder. Raises OSError if it, or a folder on the way, has become a link."""
    *folders, last = name.split("/")
    at = os.open(target, _FOLDER_FLAGS)
    try:
        for folder in folders:
            outer, at = at, os.open(folder, _FOLDER_FLAGS, dir_fd=at)
            os.close(outer)
        return os.open(last, _FILE_FLAGS, dir_fd=at)
    finally:
        os.close(at)
