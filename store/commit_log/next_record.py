"""Finds the next intact record after damage. Dispatch continues there, and recovery counts what a cut of the log discards."""

import os

from headrace.protocol.record_layout import MAGIC_AT, MAGIC_START, RECORD_OVERHEAD
from store.commit_log.record_check import BLANK, check_record
from store.mapped_file import MappedFile

_REST_OF_RECORD = RECORD_OVERHEAD - MAGIC_AT - len(MAGIC_START)  # the least that follows the bytes searched for


def find_next_record(file: MappedFile, position: int, limit: int, check_crc: bool) -> int:
    """The position of the first intact record at or after `position`; -1 if none ends at or before `limit`.

    Positions are relative to the file. Holes are not read.
    """
    while position < limit:
        size = check_record(file.view, position, limit, file.start_offset + position, check_crc)
        if size > 0:
            return position
        if size == BLANK:
            return -1
        data = _seek(file, position + 1, os.SEEK_DATA)
        hole = min(_seek(file, data, os.SEEK_HOLE), limit)
        # Before Python 3.11.4 `find` also reads the byte behind its range, which must therefore end before the mapping does.
        found = file.map.find(MAGIC_START, max(data, position + 1 + MAGIC_AT), min(hole, limit - _REST_OF_RECORD))
        position = found - MAGIC_AT if found >= 0 else max(hole, position + 1)
    return -1


def _seek(file: MappedFile, position: int, what: int) -> int:
    """The first position from here on that has data or is in a hole; the end of the file if there is none."""
    try:
        return min(os.lseek(file.fd, position, what), file.size_bytes)
    except OSError:
        return file.size_bytes
