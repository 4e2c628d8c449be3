"""The files of a CommitLog as they lie on disk: which there are, and reading from one.

A segment is a file of 20 digits, the physical offset at which it begins. Records never go beyond a segment; where one is full a blank record
ends it. Files are reserved ahead, so the last ones may hold nothing but zeros. Read with `pread`, never mapped: a file that is cut
short under a mapping kills the process.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_exporter.errors import SourceError

_NAME_LENGTH = 20


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of the CommitLog. `base`: the physical offset of its first byte; `size_bytes`: its length. Pickles."""

    path: str
    base: int
    size_bytes: int
    held_path: str = ""
    """The same file by another name, which the broker does not delete (`hold`); tried first, for as long as it is there."""

    @property
    def end(self) -> int:
        """The physical offset where the next one begins."""
        return self.base + self.size_bytes


def find_commit_log(source: Path) -> Path:
    """The folder of segments that `source` names: that folder itself, a store's root, or an appliance's data folder. Raises SourceError."""
    if not os.path.exists(source):
        raise SourceError(f"{source}: no such folder")
    if not source.is_dir():
        raise SourceError(f"{source} is a file; give the folder of a store")
    for folder in (source, source / "commitlog", source / "store" / "commitlog"):
        if os.path.isdir(folder) and any(_is_segment_name(name) for name in _names(folder)):
            return folder
    if any(os.path.isdir(source / name) for name in ("commitlog", "store/commitlog")):
        raise SourceError(f"{source}: its commitlog folder is empty")
    raise SourceError(f"{source} is not a store: it contains no commitlog folder")


def list_segments(commit_log: Path) -> list[Segment]:
    """The segments of a folder in order, empty files left out. Raises SourceError if one cannot be looked at, or two overlap."""
    segments: list[Segment] = []
    for name in sorted(filter(_is_segment_name, _names(commit_log))):
        path = commit_log / name
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # deleted by retention between listing and looking
        except OSError as error:
            raise SourceError(f"{path}: {error.strerror}") from None
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(f"{path} is not a file")
        if status.st_size == 0:
            continue
        segment = Segment(str(path), int(name), status.st_size)
        if segments and segments[-1].end > segment.base:
            raise SourceError(
                f"{path} overlaps {segments[-1].path}; the files do not belong to the same log; specify the folder of a single store"
            )
        segments.append(segment)
    return segments


def has_records(segment: Segment) -> bool:
    """Whether anything has been written at its begin."""
    with open_segment(segment) as descriptor:
        return any(read_some(descriptor, segment, segment.base, 8))


@contextmanager
def open_segment(segment: Segment) -> Iterator[int]:
    """A descriptor of the segment, for `os.pread`. Raises SourceError if it has gone or cannot be read."""
    descriptor = _open(segment)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(segment: Segment) -> int:
    if segment.held_path:
        try:
            return os.open(segment.held_path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass  # the hold was given up
    try:
        return os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise SourceError(
            f"{segment.path} was deleted before it was read; run this again, and if the broker deleted the file, "
            "increase its fileReservedTime"
        ) from None
    except OSError as error:
        raise SourceError(f"{segment.path}: {error.strerror}") from None


def read_some(descriptor: int, segment: Segment, physical_offset: int, length: int) -> bytes:
    """The bytes from `physical_offset` on, as many of them as there are. Raises SourceError."""
    try:
        return os.pread(descriptor, length, physical_offset - segment.base)
    except OSError as error:
        raise SourceError(f"{segment.path}: {error.strerror}") from None


def read_into(descriptor: int, segment: Segment, memory: memoryview, physical_offset: int) -> None:
    """Fill `memory` with the bytes from `physical_offset` on. Raises SourceError if the file has become shorter."""
    at, done = physical_offset - segment.base, 0
    while done < len(memory):
        try:
            count = os.preadv(descriptor, [memory[done:]], at + done)
        except OSError as error:
            raise SourceError(f"{segment.path}: {error.strerror}") from None
        if count == 0:
            raise SourceError(
                f"{segment.path} was truncated while it was read; restore the file, then run the export again"
            )
        done += count


def _is_segment_name(name: str) -> bool:
    return len(name) == _NAME_LENGTH and name.isdecimal()


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise SourceError(f"{folder}: {error.strerror}") from None
