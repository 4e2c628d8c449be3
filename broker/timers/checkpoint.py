"""The file `timer/checkpoint`: the progress of the timer index and of the deliveries (docs/storage/timers.md)."""

import json
from pathlib import Path

from msgspec import Struct

from broker.json_file import JsonFile
from headrace.errors import RemoteProtocolError


class Checkpoint(Struct, frozen=True):
    """Everything that it covers is durable.

    Records of the timer queue below `queue_offset` are in the files; those below `physical_offset` that are due before
    `delivered_before` (ms) have been delivered or cancelled.
    """

    queue_offset: int = 0
    delivered_before: int = 0
    physical_offset: int = 0


class CheckpointFile:
    """Reads and replaces the file."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "checkpoint"
        self._file = JsonFile(self._path)

    def read(self) -> Checkpoint | None:
        """The checkpoint; None without a file. Raises ConfigFileUnreadable."""
        return self._file.load(_decode)

    def next_turn(self) -> int:
        """A version number for a checkpoint that a thread will write."""
        return self._file.next_turn()

    def write(self, checkpoint: Checkpoint, turn: int | None = None) -> None:
        """Replaces it durably, unless a later one has been written meanwhile. Thread-safe. Raises OSError."""
        fields = {
            "queueOffset": checkpoint.queue_offset,
            "deliveredBefore": checkpoint.delivered_before,
            "physicalOffset": checkpoint.physical_offset,
        }
        self._file.write(json.dumps(fields), self._file.next_turn() if turn is None else turn)

    def delete(self) -> None:
        """Deletes it with its backup, because the index will be rebuilt. Raises OSError."""
        for path in (self._path.with_name(self._path.name + ".bak"), self._path):
            path.unlink(missing_ok=True)


def _decode(data: bytes) -> Checkpoint:
    try:
        fields = json.loads(data)
        return Checkpoint(int(fields["queueOffset"]), int(fields["deliveredBefore"]), int(fields["physicalOffset"]))
    except (ValueError, KeyError, TypeError) as error:
        raise RemoteProtocolError(f"invalid timer checkpoint: {error}") from None
