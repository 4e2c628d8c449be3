"""Checks that workers on other machines can read what the driver reads: the segments at their paths, and the target.

The driver puts a note into the target; each worker reads it, answers with a note of its own, and looks at segments. That is before anything is exported, and
leaves nothing behind. A worker that comes later and sees something else cannot do harm: see `OwnedTarget.commit`.
"""

import os
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_exporter.errors import SourceError, TargetError
from spark_exporter.reading.segments import Segment, open_segment, read_some
from spark_exporter.storage.location import Location

_NOTE = "driver"
_HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class PathProbe:
    """What every worker must be able to read: some segments, and the driver's note in the target. Pickles."""

    segments: tuple[tuple[Segment, bytes], ...]
    """Some, with their first bytes."""
    folder: Location
    secret: bytes

    def run(self) -> str:
        """In a worker: checks all of it and returns the name of its answer. Raises SourceError, TargetError."""
        here = f"worker {socket.gethostname()} (pid {os.getpid()})"
        for segment, head in self.segments:
            try:
                is_same = _head(segment) == head and os.stat(segment.path).st_size == segment.size_bytes
            except (SourceError, OSError):
                is_same = False
            if not is_same:
                raise SourceError(
                    f"{segment.path}: this file is not accessible on {here}: the log must be available at the same path on every node"
                )
        if self.folder.read(_NOTE) != self.secret:
            raise TargetError(f"{_target_of(self.folder)}: this folder is not accessible on {here}: {_CURE}")
        name = secrets.token_hex(8)
        with self.folder.open_write(name) as file:
            file.write(self.secret)
        return name


_CURE = "choose a folder that all nodes share, or a URL"


def check_shared_paths(
    segments: Sequence[Segment], target: Location, run: Callable[[PathProbe], Iterator[str]]
) -> None:
    """Raises SourceError or TargetError in one line if a worker does not see what the driver does. `run`: runs the probe on each worker."""
    some = {segments[0].path: segments[0], segments[-1].path: segments[-1]} if segments else {}
    folder = target.at(f"_export/probe-{secrets.token_hex(8)}")
    probe = PathProbe(tuple((each, _head(each)) for each in some.values()), folder, secrets.token_hex(16).encode())
    with _nothing_left(target, folder):
        folder.write(_NOTE, probe.secret)
        missing = set(run(probe)) - set(folder.sizes())
        if missing:
            raise TargetError(
                f"{target.uri}: files written there by {len(missing)} workers are not accessible here: {_CURE}"
            )


@contextmanager
def _nothing_left(target: Location, folder: Location) -> Iterator[None]:
    """Folders that were made for it go with it."""
    made: list[Path] = []
    if target.is_local:
        path = Path(folder.path_of("")).parent
        while not path.exists():
            made.append(path)
            path = path.parent
    try:
        yield
    finally:
        folder.delete_folder("")
        for each in made:
            try:
                each.rmdir()
            except OSError:
                break  # another run is using it


def _head(segment: Segment) -> bytes:
    with open_segment(segment) as descriptor:
        return read_some(descriptor, segment, segment.base, _HEAD_BYTES)


def _target_of(folder: Location) -> str:
    return folder.uri.rpartition("/_export/")[0]
