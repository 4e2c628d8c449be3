"""Logs of a few records, written by the record codec, for tests of the exporter."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.protocol.record import encode_blank, encode_record

STORE_MS = 1_795_000_000_000


class SmallLog:
    """A CommitLog with files of `file_size` bytes. `offsets`: the physical offset of each record."""

    def __init__(self, root: Path, file_size: int = 1 << 16) -> None:
        self.root = root
        self.folder = root / "commitlog"
        self.folder.mkdir(parents=True)
        self._file_size = file_size
        self._files = [bytearray()]
        self.offsets: list[int] = []

    @property
    def end(self) -> int:
        """The physical offset of the next record."""
        return (len(self._files) - 1) * self._file_size + len(self._files[-1])

    def append(self, body: bytes = b"body", topic: str = "Orders", **fields: Any) -> int:
        """Appends a record, after a blank record and in a new file if it does not fit. Returns its offset."""
        fields = {"store_timestamp": STORE_MS + len(self.offsets), "queue_offset": len(self.offsets), **fields}
        record = encode_record(topic=topic, body=body, physical_offset=self.end, **fields)
        if len(self._files[-1]) + len(record) + 8 > self._file_size:
            left = self._file_size - len(self._files[-1])
            self._files[-1] += encode_blank(left).ljust(left, b"\0")
            self._files.append(bytearray())
            record = encode_record(topic=topic, body=body, physical_offset=self.end, **fields)
        self.offsets.append(self.end)
        self._files[-1] += record
        return self.offsets[-1]

    def append_bytes(self, data: bytes) -> None:
        """Appends raw bytes in place of a record."""
        self._files[-1] += data

    def write(self, reserved_files: int = 1) -> Path:
        """Writes it to disk in full-length files, and some more empty ones. Returns the store's root."""
        for number, data in enumerate([*self._files, *[bytearray()] * reserved_files]):
            path = self.folder / f"{number * self._file_size:020}"
            path.write_bytes(bytes(data).ljust(self._file_size, b"\0"))
        return self.root

    def overwrite(self, offset: int, data: bytes) -> None:
        """Overwrites bytes that have been written."""
        number, at = divmod(offset, self._file_size)
        with (self.folder / f"{number * self._file_size:020}").open("r+b") as file:
            file.seek(at)
            file.write(data)


def write_log(root: Path, bodies: Sequence[bytes], file_size: int = 1 << 16) -> SmallLog:
    """Writes a log with these bodies to disk."""
    log = SmallLog(root, file_size)
    for body in bodies:
        log.append(body)
    log.write()
    return log
