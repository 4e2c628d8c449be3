"""An entry of the timer index: the due time and the offset of a record of the timer topic.

    byte  0          8                 16     20
          +----------+-----------------+------+
          | due, ms  | physical offset | size |    big-endian, signed; a cancelling record's size is negative
          +----------+-----------------+------+

Entries are kept as bytes, which sort by time, then by physical offset; equal entries are one entry.
"""

from struct import Struct
from typing import Final

ENTRY: Final = Struct(">qqi")
ENTRY_SIZE: Final = 20


def pack(due_ms: int, physical_offset: int, size_bytes: int, *, cancels: bool) -> bytes:
    """The entry of a record."""
    return ENTRY.pack(due_ms, physical_offset, -size_bytes if cancels else size_bytes)


def due_of(entry: bytes) -> int:
    """When it is due, in ms."""
    return int.from_bytes(entry[:8], "big")
