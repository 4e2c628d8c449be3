"""Finds the next intact record after damage. Dispatch continues there, and recovery counts what a cut of the log discards."""

import os
from collections.abc import Iterator

from headrace.protocol.record_layout import MAGIC_AT, MAGIC_START, RECORD_OVERHEAD
from store.commit_log.record_check import BLANK, check_record
from store.mapped_file import MappedFile

_REST_OF_RECORD = RECORD_OVERHEAD - MAGIC_AT - len(MAGIC_START)  # the least that follows the bytes searched for
_PIECE = 1 << 20  # limit: what is read at once


def find_next_record(file: MappedFile, position: int, limit: int, check_crc: bool) -> int:
    """The position of the first intact record at or after `position`; -1 if none ends at or before `limit`.

    Positions are relative to the file. Holes are not read.
    """
    if position >= limit:
        return -1
    size = check_record(file.view, position, limit, file.start_offset + position, check_crc)
    if size > 0 or size == BLANK:
        return position if size > 0 else -1
    for found in _find_magic(file, position + 1 + MAGIC_AT, limit - _REST_OF_RECORD):
        position = found - MAGIC_AT
        size = check_record(file.view, position, limit, file.start_offset + position, check_crc)
        if size > 0 or size == BLANK:
            return position if size > 0 else -1
    return -1


def _find_magic(file: MappedFile, position: int, end: int) -> Iterator[int]:
    """Where the bytes that all magic codes begin with are, between `position` and `end`."""
    for data, hole in _data_ranges(file, position, end):
        position = data
        while position < hole:
            piece = os.pread(file.fd, min(_PIECE, hole - position), position)
            if not piece:
                return
            found = -1
            while (found := piece.find(MAGIC_START, found + 1)) >= 0:
                yield position + found
            # A magic code may continue in the next piece.
            position = hole if position + len(piece) >= hole else position + len(piece) - len(MAGIC_START) + 1


def _data_ranges(file: MappedFile, position: int, end: int) -> list[tuple[int, int]]:
    """Begin and end of the parts that are not holes.

    # order: before any of them is read. The kernel reads ahead into reserved space, whose pages then count as data: 8 MiB more
    # with each look, up to the end of the file.
    """
    ranges = []
    while (data := _seek(file, position, os.SEEK_DATA)) < end:
        position = min(_seek(file, data, os.SEEK_HOLE), end)
        ranges.append((data, position))
    return ranges


def _seek(file: MappedFile, position: int, what: int) -> int:
    """The first position from here on that has data or is in a hole; the end of the file if there is none."""
    try:
        return min(os.lseek(file.fd, position, what), file.size_bytes)
    except OSError:
        return file.size_bytes
