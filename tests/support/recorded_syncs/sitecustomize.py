"""Imported by Python at start when this folder is on its path: records what each sync has made durable.

Under HEADRACE_SYNC_RECORD:

    files/<device>-<inode>    a file's bytes as they were when its last sync began
    names/<device>-<inode>    a directory's names likewise, each with its inode and whether it is a directory; JSON

For `support.synced_files` alone, which reads it. What reaches a file while it is synced does not count: it may have come too late.
"""

import fcntl
import json
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


def _recorded(sync: Callable[[Any], None]) -> Callable[[Any], None]:
    def sync_and_record(file: Any) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        status = os.fstat(descriptor)
        key = key_of(status)
        is_directory = stat.S_ISDIR(status.st_mode)
        if key not in _held:
            _held[key] = os.dup(descriptor)
        with open(_FOLDER / f"lock-{key}", "wb") as lock:
            # Two processes may sync a file at once: the later record must not be the older one.
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = _names(descriptor) if is_directory else _bytes(descriptor)
            sync(file)
            place = _FOLDER / ("names" if is_directory else "files") / key
            beside = _FOLDER / f"new-{key}"
            beside.write_bytes(content)
            beside.rename(place)

    return sync_and_record


os.fsync = _recorded(os.fsync)  # type: ignore[assignment]
os.fdatasync = _recorded(os.fdatasync)  # type: ignore[assignment]
