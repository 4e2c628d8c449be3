"""The files of a store as they are on disk, mapped for reading; no setting is needed to find them.

A running appliance may delete files between their listing and their opening; what is left is still without gaps.
"""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_ZEROS = bytes(1 << 20)


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
    """The files of a directory of mapped files, in order; names that are no numbers are skipped."""
    files: list[StoredFile] = []
    for entry in _entries(directory):
        if entry.name.isdecimal() and entry.is_file():
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


def is_zero(view: memoryview, start: int) -> bool:
    """Whether nothing but zeros follows from `start` on."""
    for at in range(start, len(view), len(_ZEROS)):
        piece = bytes(view[at : at + len(_ZEROS)])
        if piece != _ZEROS[: len(piece)]:
            return False
    return True


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
