"""SegmentHold: keeps planned segments on disk with hard links in `hold/` beside the CommitLog.

    hold/<run>/<20 digits>         another name of the same file: costs nothing until the broker deletes its own
    hold/<run>/owner               the owner; locked as long as that process lives

If a run crashes, its lock is released, and the next run deletes its links. If links cannot be created (a read-only store, another file system),
the export continues without them; it then fails if a segment is deleted. If the disk usage is above the level at which brokers delete files, held
segments could fill the disk: they are released with a warning.
"""

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from spark_exporter.reading.range_scan import ByteRange
from spark_exporter.running.held_segments import FOLDER

CLEANING_LEVEL: Final = 0.75
"""Disk usage above which brokers delete files before their retention time expires (diskMaxUsedSpaceRatio)."""

_OWNER: Final = "owner"


def too_full(level: float) -> str:
    """Why nothing is held on a disk whose usage is above `level`."""
    return f"disk usage exceeds {level:.0%} (the default diskMaxUsedSpaceRatio): segments are no longer protected from deletion"


class SegmentHold:
    """The links of one run. A context manager: they are deleted at its end."""

    def __init__(self, commit_log: Path, run: str, cleaning_level: float = CLEANING_LEVEL) -> None:
        self._folder = commit_log.parent / FOLDER / run
        self._commit_log = commit_log
        self._cleaning_level = cleaning_level
        self._owner: IO[Any] | None = None
        self.problem: str | None = None
        """Why nothing is held, as a sentence; None while segments are held."""

    def take(self, ranges: Sequence[ByteRange]) -> list[ByteRange]:
        """Link the segments of these ranges. Returns the ranges with the links' paths, where links exist."""
        if self._is_disk_too_full():
            self.problem = too_full(self._cleaning_level)
            return list(ranges)
        try:
            self._folder.mkdir(parents=True)
            self._owner = (self._folder / _OWNER).open("w+", encoding="utf-8")
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": int(time.time())}, self._owner)
            self._owner.flush()
            links = {}
            for path in {each.segment.path for each in ranges}:
                links[path] = self._folder / os.path.basename(path)
                os.link(path, links[path])
        except OSError as error:
            self.release()
            self.problem = f"segments are not protected from deletion: {error.strerror}"
            return list(ranges)
        return [
            replace(each, segment=replace(each.segment, held_path=str(links[each.segment.path]))) for each in ranges
        ]

    def release_through(self, physical_offset: int) -> None:
        """Release the segments that end before an offset."""
        if self._owner is None:
            return
        for link in self._folder.iterdir():
            if link.name != _OWNER and int(link.name) + link.stat().st_size <= physical_offset:
                link.unlink(missing_ok=True)

    def give_up_if_disk_is_full(self) -> bool:
        """Release all segments if the disk usage is above the cleaning level. Returns whether this call did so."""
        if self.problem is not None or not self._is_disk_too_full():
            return False
        self.release()
        self.problem = too_full(self._cleaning_level)
        return True

    def _is_disk_too_full(self) -> bool:
        try:
            usage = shutil.disk_usage(self._commit_log)
        except OSError:
            return False
        return usage.used / usage.total > self._cleaning_level

    def release(self) -> None:
        """Release all segments."""
        if self._owner is not None:
            self._owner.close()
            self._owner = None
        shutil.rmtree(self._folder, ignore_errors=True)
        _delete_if_empty(self._folder.parent)

    def __enter__(self) -> Self:
        # Also if there is nothing to export: a run may have crashed between its last commit and the release.
        delete_abandoned(self._commit_log)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.release()


def delete_abandoned(commit_log: Path) -> None:
    """Delete the links of crashed runs."""
    folder = commit_log.parent / FOLDER
    try:
        runs = [path for path in folder.iterdir() if path.is_dir()]
    except OSError:
        return
    for run in runs:
        if not _is_owned(run):
            shutil.rmtree(run, ignore_errors=True)
    _delete_if_empty(folder)


def _is_owned(run: Path) -> bool:
    try:
        with (run / _OWNER).open("r+", encoding="utf-8") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        # It may be about to be locked: recent ones are kept.
        try:
            return time.time() - run.stat().st_mtime < 60
        except OSError:
            return True
    except OSError:
        return True
    return False


def _delete_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        pass
