"""Iterates over the records and blanks of the CommitLog, for recovery and inspection.

Reads only mapped bytes, does not use published offsets, and changes nothing.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Protocol

from msgspec import Struct

from store.commit_log.record_check import BLANK, REASONS, WRONG_CRC, check_record, store_timestamp_of
from store.mapped_file import MappedFile

__all__ = [
    "BLANK",
    "REASONS",
    "WRONG_CRC",
    "Kind",
    "LogEnd",
    "LogSource",
    "Stretch",
    "check_record",
    "find_end",
    "scan",
]


class Kind(Enum):
    """What is at an offset of the log."""

    RECORD = "record"
    BLANK = "blank"
    BAD = "bad"


class Stretch(Struct, frozen=True):
    """A record, the blank at the end of a file, or the first bytes that are neither; `reason` says why."""

    kind: Kind
    physical_offset: int
    size_bytes: int
    reason: str = ""


class LogEnd(Struct, frozen=True):
    """Where the valid records of a log end, and why; `last_record_offset` and `last_timestamp` are -1 if there are none."""

    offset: int
    reason: str
    records: int
    last_record_offset: int
    last_timestamp: int


class LogSource(Protocol):
    """The source of a scan: a MappedFileQueue or a CommitLogReader."""

    def file_for(self, offset: int) -> MappedFile | None:
        """The file that contains this offset, or None."""


def scan(source: LogSource, start: int, end: int | None, check_crc: bool) -> Iterator[Stretch]:
    """The records and blanks of the log from `start` (a record's begin) up to `end`, or up to the last file.

    The first bytes that are neither are returned as BAD and end the scan. A missing file ends it silently.
    """
    offset = start
    while end is None or offset < end:
        file = source.file_for(offset)
        if file is None:
            return
        view, begin = file.view, file.start_offset
        limit = file.size_bytes if end is None else min(file.size_bytes, end - begin)
        while offset < begin + limit:
            size = check_record(view, offset - begin, limit, offset, check_crc)
            if size <= 0:
                break
            yield Stretch(Kind.RECORD, offset, size)
            offset += size
        else:
            continue
        if size != BLANK:
            yield Stretch(Kind.BAD, offset, 0, REASONS[size])
            return
        yield Stretch(Kind.BLANK, offset, file.end_offset - offset)
        offset = file.end_offset


def find_end(source: LogSource, start: int, check_crc: bool) -> LogEnd:
    """Where the valid records that begin at `start` end: like `scan`, without an object for each record."""
    offset, records, last_offset, last_timestamp = start, 0, -1, -1
    reason = "last file"
    while (file := source.file_for(offset)) is not None:
        position, count, last, answer = walk(
            file.view, offset - file.start_offset, file.size_bytes, file.start_offset, check_crc
        )
        records += count
        if count:
            last_offset = file.start_offset + last
            last_timestamp = store_timestamp_of(file.view, last)
        offset = file.start_offset + position
        if answer != BLANK:
            reason = REASONS[answer]
            break
        offset = file.end_offset
    return LogEnd(offset, reason, records, last_offset, last_timestamp)


def walk(view: memoryview, position: int, limit: int, start_offset: int, check_crc: bool) -> tuple[int, int, int, int]:
    """Scans the valid records of one file: (position after them, their number, position of the last, why it ended)."""
    count, last = 0, -1
    while True:
        size = check_record(view, position, limit, start_offset + position, check_crc)
        if size <= 0:
            return position, count, last, size
        last = position
        position += size
        count += 1
