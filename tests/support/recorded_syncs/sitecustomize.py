"""Imported by Python at start when this folder is on its path: records what each sync has made durable.

Under HEADRACE_SYNC_RECORD:

    files/<device>-<inode>    a file's bytes as they were when its last sync began; of a sync of a range of a mapped file, those of the range
    names/<device>-<inode>    a directory's names likewise, each with its inode and whether it is a directory; JSON

For `support.synced_files` alone, which reads it. What reaches a file while it is synced does not count: it may have come too late.
"""

import fcntl
import json
import mmap
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FOLDER = Path(os.environ["HEADRACE_SYNC_RECORD"])
_held: dict[str, int] = {}
"""Descriptors that stay open, so that no inode's number is given to another file while this process lives."""


def key_of(status: os.stat_result) -> str:
    """The name of a file in the record, independent of its path."""
    return f"{status.st_dev}-{status.st_ino}"


def _names(descriptor: int) -> bytes:
    with os.scandir(f"/proc/self/fd/{descriptor}") as entries:
        found = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
    return json.dumps(
        {name: [key_of(status), stat.S_ISDIR(status.st_mode)] for name, status in sorted(found.items())}
    ).encode()


def _bytes(descriptor: int) -> bytes:
    return Path(f"/proc/self/fd/{descriptor}").read_bytes()


def _record(descriptor: int, sync: Callable[[], None], begin: int = 0, size: int | None = None) -> None:
    """Syncs, and records what is durable then; `begin` and `size`: only this range of a file."""
    status = os.fstat(descriptor)
    key = key_of(status)
    is_directory = stat.S_ISDIR(status.st_mode)
    if key not in _held:
        _held[key] = os.dup(descriptor)
    place = _FOLDER / ("names" if is_directory else "files") / key
    with open(_FOLDER / f"lock-{key}", "wb") as lock:
        # Two processes may sync a file at once: the later record must not be the older one.
        fcntl.flock(lock, fcntl.LOCK_EX)
        content = _names(descriptor) if is_directory else _bytes(descriptor)
        if size is not None:
            before = (place.read_bytes() if place.exists() else b"").ljust(len(content), b"\0")
            content = before[:begin] + content[begin : begin + size] + before[begin + size :]
        sync()
        beside = _FOLDER / f"new-{key}"
        beside.write_bytes(content)
        beside.rename(place)


def _recorded(sync: Callable[[Any], None]) -> Callable[[Any], None]:
    def sync_and_record(file: Any) -> None:
        _record(file if isinstance(file, int) else file.fileno(), lambda: sync(file))

    return sync_and_record


class _RecordedMapping(mmap.mmap):
    """A mapping whose `flush` is recorded."""

    descriptor: int

    def __new__(cls, fileno: int, *arguments: Any, **options: Any) -> "_RecordedMapping":
        made = super().__new__(cls, fileno, *arguments, **options)
        made.descriptor = os.dup(fileno) if fileno >= 0 else -1
        return made

    def flush(self, offset: int = 0, size: int | None = None) -> None:
        length = len(self) - offset if size is None else size
        _record(self.descriptor, lambda: super(_RecordedMapping, self).flush(offset, length), offset, size)

    def close(self) -> None:
        super().close()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


os.fsync = _recorded(os.fsync)  # type: ignore[assignment]
os.fdatasync = _recorded(os.fdatasync)  # type: ignore[assignment]
mmap.mmap = _RecordedMapping  # type: ignore[misc]
