"""One run at a time on a target.

On a disk it is a lock of the kernel's on `_export/lock`, free as soon as its holder is gone, however it went. Behind a URL it is an object that its holder
writes again and again; one that has not been written for a while belongs to nobody.
"""

import fcntl
import json
import os
import socket
import time
from types import TracebackType
from typing import IO, Any, Final, Self

from spark_exporter.errors import TargetBusy
from spark_exporter.location import Location, open_lock

LOCK: Final = "_export/lock"
_STALE_S: Final = 600  # limit: longer than any commit takes
_AGAIN_S: Final = 60


class TargetLock:
    """The lock, taken when the context is entered. Raises TargetBusy, which says who has it."""

    def __init__(self, work: Location, run: str, command: str) -> None:
        self._work = work
        self._owner = {
            "run": run,
            "command": command,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": int(time.time()),
        }
        self._file: IO[Any] | None = None
        self._written_s = 0.0

    def __enter__(self) -> Self:
        if self._work.is_local:
            self._take_file()
        else:
            self._take_object()
        return self

    def keep(self) -> None:
        """Say that we are still here. To be called every minute or so."""
        if self._file is None and time.monotonic() - self._written_s > _AGAIN_S:
            self._write_object()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
        else:
            self._work.delete(LOCK)

    def _take_file(self) -> None:
        self._file = open_lock(self._work, LOCK)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = self._file.read()
            self._file.close()
            raise TargetBusy(_who(self._work, owner)) from None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(json.dumps(self._owner))
        self._file.flush()

    def _take_object(self) -> None:
        found = self._work.read(LOCK)
        if found is not None and time.time() - json.loads(found)["seen"] < _STALE_S:
            raise TargetBusy(_who(self._work, found.decode()))
        self._write_object()

    def _write_object(self) -> None:
        self._written_s = time.monotonic()
        self._work.write(LOCK, json.dumps({**self._owner, "seen": int(time.time())}).encode())


def read_owner(work: Location) -> str | None:
    """What the run that is on the target says of itself, in JSON; None: there is none. Takes no lock, which would keep a run out."""
    data = work.read(LOCK)
    if not data:
        return None
    owner = json.loads(data)
    if "seen" in owner:
        is_there = time.time() - owner["seen"] < _STALE_S
    else:
        is_there = owner["host"] != socket.gethostname() or os.path.exists(f"/proc/{owner['pid']}")
    return data.decode() if is_there else None


def _who(work: Location, text: str) -> str:
    try:
        owner = json.loads(text)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner["since"]))
        return f"{work.uri}: {owner['command']} is running on it, pid {owner['pid']} on {owner['host']} since {since}"
    except (ValueError, KeyError):
        return f"{work.uri}: another run is on it"
