"""The files of the timer index, one for each ten minutes with due messages (docs/storage/timers.md).

    timer/<20 digits: the first millisecond of the ten minutes>      entries, in the order in which they came

Entries are collected in memory until `write`, which may run in a thread. Only one process may use these files: the broker of a master.
"""

import os
from pathlib import Path
from typing import Final

from broker.timers.entry import ENTRY_SIZE
from store.mapped_file import sync_directory
from store.paths import file_name

SPAN_MS: Final = 600_000
"""The time covered by a file."""

Gathered = dict[int, bytes]
"""Entries by the bucket of their file."""


def bucket_of(due_ms: int) -> int:
    """The bucket of a time: its first millisecond."""
    return due_ms - due_ms % SPAN_MS


class BucketFiles:
    """The files in a directory, which is created at the first write."""

    def __init__(self, directory: Path) -> None:
        """Lists existing files; a partial entry at the end of a file is truncated. Raises OSError."""
        self._directory = directory
        self._gathered: dict[int, bytearray] = {}
        self._writing: Gathered = {}
        self._unsynced: set[int] = set()
        self._counts: dict[int, int] = {}
        """The number of entries of each bucket, including collected ones."""
        if directory.is_dir():
            for name in os.listdir(directory):
                if len(name) == 20 and name.isdecimal():
                    fd = os.open(directory / name, os.O_WRONLY | os.O_NOFOLLOW)
                    try:
                        size = os.fstat(fd).st_size
                        self._counts[int(name)] = size // ENTRY_SIZE
                        if size % ENTRY_SIZE:
                            os.ftruncate(fd, size - size % ENTRY_SIZE)
                    finally:
                        os.close(fd)

    def next_bucket(self, least: int) -> int | None:
        """The first bucket from `least` on that has entries."""
        return min((bucket for bucket in self._counts if bucket >= least), default=None)

    def count_from(self, least: int) -> int:
        """The number of entries in the buckets from `least` on."""
        return sum(count for bucket, count in self._counts.items() if bucket >= least)

    def add(self, bucket: int, entry: bytes) -> None:
        """Adds an entry to a bucket."""
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._gathered.setdefault(bucket, bytearray()).extend(entry)

    @property
    def has_gathered(self) -> bool:
        """Whether there are entries to write."""
        return bool(self._gathered or self._writing)

    def begin_write(self) -> None:
        """Selects the collected entries for `write`. `read` includes them until `end_write`."""
        for bucket, data in self._gathered.items():
            self._writing[bucket] = self._writing.get(bucket, b"") + bytes(data)
        self._gathered.clear()

    def end_write(self) -> None:
        """The entries are in the files."""
        self._writing.clear()

    def write(self) -> None:
        """Appends entries to their files. Thread-safe. Raises OSError; some may then have been written, and all are written again next time."""
        if self._writing:
            self._directory.mkdir(parents=True, exist_ok=True)
        for bucket, data in self._writing.items():
            self._unsynced.add(bucket)
            fd = os.open(
                self._directory / file_name(bucket), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o640
            )
            try:
                size = os.fstat(fd).st_size
                written = os.write(fd, data)
                if written != len(data):
                    os.ftruncate(fd, size)
                    raise OSError(f"short write of timer entries: {written} of {len(data)} bytes")
            finally:
                os.close(fd)

    def sync(self) -> None:
        """Makes all written entries durable. Thread-safe. Raises OSError."""
        for bucket in sorted(self._unsynced):
            try:
                fd = os.open(self._directory / file_name(bucket), os.O_RDONLY)
            except FileNotFoundError:
                self._unsynced.discard(bucket)
                continue
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            self._unsynced.discard(bucket)
        if self._directory.is_dir():
            sync_directory(self._directory)

    def read(self, bucket: int) -> bytes:
        """The entries of a bucket, including collected ones. Raises OSError."""
        try:
            data = (self._directory / file_name(bucket)).read_bytes()
        except FileNotFoundError:
            data = b""
        whole = data[: len(data) - len(data) % ENTRY_SIZE]
        return whole + self._writing.get(bucket, b"") + bytes(self._gathered.get(bucket, b""))

    def has_before(self, time_ms: int) -> bool:
        """Whether `delete_before` would delete files."""
        return any(bucket + SPAN_MS <= time_ms for bucket in self._counts)

    def delete_before(self, time_ms: int) -> None:
        """Deletes the files whose ten minutes end before `time_ms`. Not while a thread writes. Raises OSError."""
        for bucket in [bucket for bucket in self._counts if bucket + SPAN_MS <= time_ms]:
            (self._directory / file_name(bucket)).unlink(missing_ok=True)
            self._gathered.pop(bucket, None)
            self._unsynced.discard(bucket)
            self._counts.pop(bucket, None)

    def clear(self) -> None:
        """Deletes all files and collected entries. Raises OSError."""
        self.delete_before(1 << 62)

    def reset(self) -> None:
        """Deletes all files, which will be rebuilt. Collected entries are kept. Raises OSError."""
        gathered = dict(self._gathered)
        self.clear()
        self._gathered = gathered
        self._counts = {bucket: len(data) // ENTRY_SIZE for bucket, data in gathered.items()}
