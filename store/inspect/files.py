"""The files of a store as they are on disk, mapped for reading; no setting is needed to find them.

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
    """One file, mapped. `start` is the number in its name: where it begins in its stream of bytes."""

    path: Path
    start: int
    view: memoryview

    @property
    def name(self) -> str:
        """Its name in its directory."""
        return self.path.name

    @property
    def end(self) -> int:
        """Where the next file of the stream begins."""
        return self.start + len(self.view)


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
            file = open_file(Path(entry.path))
            if file is None:
                files.clear()  # deleted meanwhile, and the oldest are deleted first: those before it are gone, too
            else:
                files.append(file)
    return files


def open_file(path: Path) -> StoredFile | None:
    """A file, mapped; None if it has gone."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            view = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")
    except FileNotFoundError:
        return None
    return StoredFile(path, int(path.name) if path.name.isdecimal() else 0, view)


def list_queues(directory: Path) -> Iterator[QueueDirectory]:
    """All queues below `consumequeue` or one of its kind, in the order of their directories' names."""
    for topic in _entries(directory):
        if topic.is_dir():
            for queue in _entries(Path(topic.path)):
                if queue.name.isdecimal() and queue.is_dir():
                    yield QueueDirectory(Path(queue.path), topic.name, int(queue.name))


def is_zero(file: StoredFile, start: int) -> bool:
    """Whether nothing but zeros follows from `start` on. Holes are not read: most of a store's files are not yet written."""
    for begin, end in _stored_parts(file, start):
        for at in range(begin, end, len(_ZEROS)):
            piece = bytes(file.view[at : min(at + len(_ZEROS), end)])
            if piece != _ZEROS[: len(piece)]:
                return False
    return True


def _stored_parts(file: StoredFile, start: int) -> Iterator[tuple[int, int]]:
    """The parts of a file, from `start` on, that are no holes."""
    size = len(file.view)
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
            yield begin, min(end, size)
    finally:
        os.close(descriptor)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
