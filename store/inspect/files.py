"""The files of a store as they are on disk; no setting is needed to find them.

A running appliance may delete files between their listing and their opening; what is left is still without gaps.
"""

import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_ZEROS = bytes(1 << 20)
START_MAX = 1 << 62  # limit: what begins there, and is as long as a file, ends at a number of 64 bits


class StoredFile(Struct, frozen=True):
    """One file. `start` is the number in its name: where it begins in its stream of bytes."""

    path: Path
    start: int
    size: int

    @property
    def name(self) -> str:
        """Its name in its directory."""
        return self.path.name

    @property
    def end(self) -> int:
        """Where the next file of the stream begins."""
        return self.start + self.size

    def read(self, at: int, size: int) -> bytes | None:
        """At most so many bytes; None if it has gone."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return os.pread(descriptor, size, at)
        finally:
            os.close(descriptor)

    def map(self) -> memoryview | None:
        """Its bytes, as many as it has now; None if it has gone. They take a descriptor and a mapping, of which a process may have few."""
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")
        except FileNotFoundError:
            return None


class QueueDirectory(Struct, frozen=True):
    """Where the files of one queue are."""

    path: Path
    topic: str
    queue_id: int


def commit_log_directory(store: Path) -> Path:
    """The CommitLog of the store at this root, unless `storePathCommitLog` has moved it."""
    return store / "commitlog"


def list_files(directory: Path) -> list[StoredFile]:
    """The files of a directory of mapped files, in order; names that are no numbers, or too high ones, are skipped."""
    files: list[StoredFile] = []
    for entry in _entries(directory):
        if entry.name.isdecimal() and int(entry.name) < START_MAX and entry.is_file():
            file = find_file(Path(entry.path))
            if file is None:
                files.clear()  # deleted meanwhile, and the oldest are deleted first: those before it are gone, too
            else:
                files.append(file)
    return files


def find_file(path: Path) -> StoredFile | None:
    """A file; None if it has gone."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return None
    return StoredFile(path, int(path.name) if path.name.isdecimal() else 0, size)


def list_queues(directory: Path) -> Iterator[QueueDirectory]:
    """All queues below `consumequeue` or one of its kind, in the order of their directories' names."""
    for topic in _entries(directory):
        if topic.is_dir():
            for queue in _entries(Path(topic.path)):
                if queue.name.isdecimal() and queue.is_dir():
                    yield QueueDirectory(Path(queue.path), topic.name, int(queue.name))


def is_zero(file: StoredFile, start: int) -> bool:
    """Whether nothing but zeros follows from `start` on. Holes are not read: most of a store's files are not yet written."""
    return all(piece == _ZEROS[: len(piece)] for piece in _stored_pieces(file, start))


def _stored_pieces(file: StoredFile, start: int) -> Iterator[bytes]:
    """What is stored in a file from `start` on."""
    size = file.size
    try:
        descriptor = os.open(file.path, os.O_RDONLY)
    except FileNotFoundError:
        return  # deleted meanwhile
    try:
        end = start
        while end < size:
            try:
                begin = os.lseek(descriptor, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return
                raise
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
            for at in range(begin, min(end, size), len(_ZEROS)):
                yield os.pread(descriptor, min(len(_ZEROS), end - at, size - at), at)
    finally:
        os.close(descriptor)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
