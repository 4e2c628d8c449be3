"""What a power cut leaves of an appliance's files: everything synced, and random pages and names of the rest.

    record = SyncRecord(tmp_path / "synced")
    with Appliance(data, environment=record.environment()) as appliance:
        ...
    record.leave(appliance.store, tmp_path / "left" / "store", is_lost=lambda: True)

A name is durable once its directory was synced, a file's bytes are once the file was: what docs/storage/crash-safety.md assumes, and no
more. `support/recorded_syncs` writes down in the appliance's own processes what was synced.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

RECORDER = Path(__file__).with_name("recorded_syncs")
PAGE = 4096


@dataclass(frozen=True)
class Entry:
    """A directory entry: the file or directory that it refers to, whatever its other names."""

    key: str
    is_directory: bool


class SyncRecord:
    """What the processes with its `environment` have synced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("files", "names"):
            (folder / name).mkdir(parents=True)

    def environment(self) -> dict[str, str]:
        """The environment for the appliance."""
        path = os.pathsep.join(filter(None, (str(RECORDER), os.environ.get("PYTHONPATH"))))
        return {**os.environ, "PYTHONPATH": path, "HEADRACE_SYNC_RECORD": str(self._folder)}

    def leave(self, root: Path, target: Path, is_lost: Callable[[], bool]) -> None:
        """Copies what a power cut leaves of `root` to `target`; `is_lost` is called per unsynced page and name."""
        self._leave_directory(root, _entry(root).key, target, is_lost)

    def _leave_directory(self, now: Path | None, key: str, target: Path, is_lost: Callable[[], bool]) -> None:
        target.mkdir(parents=True)
        synced = self._names(key)
        stored = {} if now is None else {path.name: _entry(path) for path in now.iterdir()}
        for name in sorted(synced | stored):
            entry = stored.get(name)
            if entry != synced.get(name) and is_lost():
                entry = synced.get(name)
            if entry is None:
                continue
            # The bytes of a file that has since lost its name are gone from the page cache too.
            path = now / name if now is not None and entry == stored.get(name) else None
            if entry.is_directory:
                self._leave_directory(path, entry.key, target / name, is_lost)
            else:
                self._leave_file(path, entry.key, target / name, is_lost)
        _leave_times(now, target)

    def _leave_file(self, now: Path | None, key: str, target: Path, is_lost: Callable[[], bool]) -> None:
        recorded = self._folder / "files" / key
        synced = recorded.read_bytes() if recorded.exists() else b""
        stored = synced if now is None else now.read_bytes()
        size = len(synced) if len(synced) != len(stored) and is_lost() else len(stored)
        left = bytearray(stored[:size].ljust(size, b"\0"))
        for at in range(0, size, PAGE):
            end = min(at + PAGE, size)
            page = synced[at:end].ljust(end - at, b"\0")
            if page != left[at:end] and is_lost():
                left[at:end] = page
        target.write_bytes(left)
        _leave_times(now, target)

    def _names(self, key: str) -> dict[str, Entry]:
        recorded = self._folder / "names" / key
        if not recorded.exists():
            return {}
        return {name: Entry(*entry) for name, entry in json.loads(recorded.read_bytes()).items()}


def _leave_times(now: Path | None, target: Path) -> None:
    if now is not None:
        status = now.stat()
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _entry(path: Path) -> Entry:
    status = path.lstat()
    return Entry(f"{status.st_dev}-{status.st_ino}", path.is_dir())
