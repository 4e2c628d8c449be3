"""The `checkpoint` file: the store timestamps up to which log and indexes are durable.

    byte  0                8                16               24                  4096
          +----------------+----------------+----------------+-------------------+
          | physicMsgTime… | logicsMsgTime… | indexMsgTime…  | RocketMQ 5's, kept |     big-endian, ms
          +----------------+----------------+----------------+-------------------+

Recovery begins where the checkpoint says that everything before is safe; a timestamp too old costs time, one too new loses
index entries. So a value is read *before* the sync that makes it true, and written after. Written by the housekeeper, read by
recovery (store spec, 1.5).
"""

import os
import struct
from pathlib import Path

from msgspec import Struct

from store.errors import SyncFailed
from store.fault_point import fault_point
from store.mapped_file import sync_directory

FILE_SIZE = 4096
_TIMESTAMPS = struct.Struct(">qqq")
_SLACK_MS = 3000  # compat: subtracted by RocketMQ (store spec, 1.5)


class Checkpoint(Struct, frozen=True):
    """Store timestamps in ms: of the last durable record, of the last durable ConsumeQueue entry, of the last full IndexFile."""

    physic_timestamp: int = 0
    logics_timestamp: int = 0
    index_timestamp: int = 0

    @property
    def min_timestamp(self) -> int:
        """Records stored up to here, and their ConsumeQueue entries, are durable."""
        return max(0, min(self.physic_timestamp, self.logics_timestamp) - _SLACK_MS)


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint on disk; zeros when there is none or it is too short, which makes recovery read the whole log."""
    try:
        head = path.read_bytes()[: _TIMESTAMPS.size]
    except FileNotFoundError:
        return Checkpoint()
    if len(head) < _TIMESTAMPS.size:
        return Checkpoint()
    return Checkpoint(*_TIMESTAMPS.unpack(head))


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes the checkpoint durably. For the housekeeper only. Raises OSError, SyncFailed.

    In place: the 24 bytes are in one sector, which a power cut leaves old or new.
    """
    new = not path.exists()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    try:
        if os.fstat(fd).st_size < FILE_SIZE:
            os.posix_fallocate(fd, 0, FILE_SIZE)
        data = _TIMESTAMPS.pack(checkpoint.physic_timestamp, checkpoint.logics_timestamp, checkpoint.index_timestamp)
        os.pwrite(fd, data, 0)
        fault_point("checkpoint.written")
        try:
            os.fsync(fd)
        except OSError as error:
            raise SyncFailed(path, error) from error
    finally:
        os.close(fd)
    if new:
        sync_directory(path.parent)
