"""What a cut of the log discards: whole records that lie behind the first bytes that are none.

    … | record | damaged bytes | record | record | … zeros
               ^ the log ends   ^^^^^^^^^^^^^^^^^ discarded

A power cut leaves such records if their pages reached the disk and earlier ones did not; then nobody was answered for them under
SYNC_FLUSH. Damage leaves them too, and then their senders were. Either way an operator must be told, before they are wiped.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

from store.commit_log.record_check import BLANK, check_record
from store.mapped_file import MappedFile
from store.mapped_file_queue import MappedFileQueue

_MAGIC_START = b"\xda\xa3\x20"  # of both magic codes
_MAGIC_AT = 4


@dataclass(frozen=True, slots=True)
class Discarded:
    """How many whole records, and where the first and the last of them begin (-1 without one)."""

    records: int = 0
    first_offset: int = -1
    last_offset: int = -1


def find_discarded(
    log: MappedFileQueue, end_offset: int, check_crc: bool, beat: Callable[[], None] = lambda: None
) -> Discarded:
    """Looks at all that is written behind the end of the log; holes are not read. `beat` is called once a file."""
    records, first, last = 0, -1, -1
    for start in log.starts():
        file = log.file_for(start) if start + log.file_size > end_offset else None
        if file is None:
            continue
        beat()
        position = max(end_offset - start, 0)
        while (position := _next_record(file, position, check_crc)) >= 0:
            records += 1
            last = start + position
            first = last if first < 0 else first
            position += int.from_bytes(file.view[position : position + 4], "big")
    return Discarded(records, first, last)


def _next_record(file: MappedFile, position: int, check_crc: bool) -> int:
    """Where the next whole record begins; -1 without one."""
    while position < file.size_bytes:
        size = check_record(file.view, position, file.size_bytes, file.start_offset + position, check_crc)
        if size > 0:
            return position
        if size == BLANK:
            return -1
        data = _seek(file, position + 1, os.SEEK_DATA)
        hole = _seek(file, data, os.SEEK_HOLE)
        found = file.map.find(_MAGIC_START, max(data, position + 1 + _MAGIC_AT), hole)
        position = found - _MAGIC_AT if found >= 0 else hole
    return -1


def _seek(file: MappedFile, position: int, what: int) -> int:
    """The first position from here on that is data, or in a hole; the end of the file without one."""
    try:
        return min(os.lseek(file.fd, position, what), file.size_bytes)
    except OSError:
        return file.size_bytes
