"""JsonFile: a file under `config/`, replaced atomically, with the previous version beside it as `.bak`.

    <name>        the current version
    <name>.bak    the previous version
    <name>.tmp    being written; ignored, and removed by the next write

A file is written to `.tmp`, synced, and renamed over its predecessor, which is kept as `.bak`. After a kill or a power cut at any
time, `<name>` is one of the two versions, complete. Java brokers read these files and we read theirs (store spec 1.6).

The broker process is the only one that writes here; dispatch reads `topics.json`.
"""

import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from broker.errors import ConfigFileUnreadable
from headrace.errors import RemoteProtocolError
from store.mapped_file import sync_directory

T = TypeVar("T")

logger = logging.getLogger(__name__)


class JsonFile:
    """Reads and replaces one configuration file. `path` need not exist yet; its folder is created at the first write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._backup = path.with_name(path.name + ".bak")
        self._temporary = path.with_name(path.name + ".tmp")
        self._lock = threading.Lock()
        self._turn = 0
        self._written = 0

    def load(self, decode: Callable[[bytes], T]) -> T | None:
        """The content of the file, decoded by `decode`, which may raise RemoteProtocolError; None if there is none.

        If the file is missing, empty or unreadable, its `.bak` is read. Raises ConfigFileUnreadable if one exists and neither can
        be read: starting without it would lose topics or offsets, and overwrite what could still be repaired.
        """
        causes: list[str] = []
        for path in (self.path, self._backup):
            try:
                found = self._read(path, decode)
            except (RemoteProtocolError, OSError) as error:
                causes.append(f"{path.name}: {error}")
                continue
            if found is not None:
                if causes:
                    logger.warning("configuration file unreadable, backup loaded error=%r", causes[0])
                return found
        if causes:
            raise ConfigFileUnreadable(self.path, "; ".join(causes))
        return None

    def save(self, text: str) -> None:
        """Replaces the file by `text`, durably. Raises OSError; the file is then unchanged."""
        self.write(text, self.next_turn())

    def next_turn(self) -> int:
        """A version number for `write` in another thread: taken together with the content to be written."""
        self._turn += 1
        return self._turn

    def write(self, text: str, turn: int) -> None:
        """Replaces the file by `text`, unless a later version has been written meanwhile. Raises OSError."""
        with self._lock:
            if turn < self._written:
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._temporary.unlink(missing_ok=True)  # left by a kill, or a symbolic link: nothing is written through it
            descriptor = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            self._keep_backup()
            # order: the backup before the rename, otherwise a kill in between would leave no predecessor.
            os.replace(self._temporary, self.path)
            sync_directory(self.path.parent)
            self._written = turn

    def _keep_backup(self) -> None:
        """Makes `.bak` the current file. The file itself never disappears, because dispatch may be reading it."""
        if not self.path.exists():
            return
        linked = self._backup.with_name(self._backup.name + ".tmp")
        linked.unlink(missing_ok=True)
        try:
            os.link(self.path, linked)
        except OSError:  # a file system without hard links
            shutil.copyfile(self.path, linked)
        os.replace(linked, self._backup)
        # A rename of a name onto another name of the same file does nothing and leaves both.
        linked.unlink(missing_ok=True)

    @staticmethod
    def _read(path: Path, decode: Callable[[bytes], T]) -> T | None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        return decode(data) if data.strip() else None
