"""Finds the next whole record behind damage: dispatch goes on there, and recovery counts what a cut of the log discards."""

import os

from store.commit_log.record_check import BLANK, check_record
from store.mapped_file import MappedFile

_MAGIC_START = b"\xda\xa3\x20"  # of both magic codes
_MAGIC_AT = 4


def find_record(file: MappedFile, position: int, limit: int, check_crc: bool) -> int:
    """Where the first whole record at or behind `position` begins; -1 without one that ends at or before `limit`.

    Positions count in the file. Holes are not read.
    """
    while position < limit:
        size = check_record(file.view, position, limit, file.start_offset + position, check_crc)
        if size > 0:
            return position
        if size == BLANK:
            return -1
        data = _seek(file, position + 1, os.SEEK_DATA)
        hole = min(_seek(file, data, os.SEEK_HOLE), limit)
        found = file.map.find(_MAGIC_START, max(data, position + 1 + _MAGIC_AT), hole)
        position = found - _MAGIC_AT if found >= 0 else max(hole, position + 1)
    return -1


def _seek(file: MappedFile, position: int, what: int) -> int:
    """The first position from here on that is data, or in a hole; the end of the file without one."""
    try:
        return min(os.lseek(file.fd, position, what), file.size_bytes)
    except OSError:
        return file.size_bytes
