"""Which bytes of the CommitLog are a record: the walk over records and blanks, used by recovery and by inspection.

    0        4        8      12        20       28          36        48+B                 68+B+S   72+B+S
    totalSize magicCode bodyCRC … queueOffset physicalOffset sysFlag … storeTimestamp … bodyLength body topic properties

    B, S = 8, or 20 where sysFlag says that the born or store host is IPv6 (store spec, 2.1)

Stricter than RocketMQ in one point: a record must say that it lies where it lies. Bytes of a file's former life are whole
records, only somewhere else. Reads mapped bytes only; knows no published offset; changes nothing.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from isal.isal_zlib import crc32

from headrace.protocol.record import (
    BLANK_MAGIC,
    END_FILE_MIN_BLANK_LENGTH,
    MESSAGE_MAGIC,
    MESSAGE_MAGIC_V2,
    RECORD_OVERHEAD,
)
from store.mapped_file import MappedFile

_BORN_HOST_V6 = 0x10
_STORE_HOST_V6 = 0x20
_INNER_BATCH = 0x80
_TRANSACTION = 0x0C
_WITHOUT_ENTRY = (0x04, 0x0C)  # prepared, rolled back
_STORE_TIMESTAMP = 48  # plus the born host's length

# totalSize, magicCode, bodyCRC, physicalOffset, sysFlag, bodyLength of a record whose hosts are both IPv4
_HEAD = struct.Struct(">iii16xqi44xi")
_MAGIC_AND_SIZE = struct.Struct(">ii")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_SHORT = struct.Struct(">h")

# What check_record answers instead of a record's size.
BLANK = 0
NO_ROOM = -1
NO_MAGIC = -2
WRONG_PLACE = -3
WRONG_LENGTHS = -4
WRONG_CRC = -5

REASONS = {
    BLANK: "the blank record at the end of a file",
    NO_ROOM: "too few bytes are left in the file",
    NO_MAGIC: "no magic code",
    WRONG_PLACE: "the record says that it lies elsewhere",
    WRONG_LENGTHS: "its lengths do not add up to its total size",
    WRONG_CRC: "the body does not match its CRC",
}


def check_record(view: memoryview, position: int, limit: int, physical_offset: int, check_crc: bool) -> int:
    """The size of the valid record at `position` of a file's view, or BLANK, or one of the negative reasons.

    Nothing at or beyond `limit` is looked at. Store spec, section 5, "Record check".
    """
    room = limit - position
    if room < END_FILE_MIN_BLANK_LENGTH:
        return NO_ROOM
    if room < RECORD_OVERHEAD:
        _, magic = _MAGIC_AND_SIZE.unpack_from(view, position)
        return BLANK if magic == BLANK_MAGIC else NO_ROOM if magic in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2) else NO_MAGIC
    total, magic, body_crc, says_offset, sys_flag, body_length = _HEAD.unpack_from(view, position)
    if magic != MESSAGE_MAGIC:
        if magic == BLANK_MAGIC:
            return BLANK
        if magic != MESSAGE_MAGIC_V2:
            return NO_MAGIC
    if total > room:
        return NO_ROOM
    if says_offset != physical_offset:
        return WRONG_PLACE
    body = position + 88
    if sys_flag & 0x30:
        body += hosts_length(sys_flag) - 16
        if body + 3 > limit:
            return WRONG_LENGTHS
        (body_length,) = _INT.unpack_from(view, body - 4)
    end = position + total
    # compat: a negative length of body or properties counts as none.
    topic = body + body_length if body_length > 0 else body
    if topic + 3 > end:
        return WRONG_LENGTHS
    if magic == MESSAGE_MAGIC:
        properties = topic + 1 + view[topic]
    else:
        properties = topic + 2 + (view[topic] << 8 | view[topic + 1])
    if view[topic] > 127 or properties + 2 > end:
        return WRONG_LENGTHS
    properties_length = view[properties] << 8 | view[properties + 1]
    if properties + 2 + (properties_length if properties_length < 0x8000 else 0) != end:
        return WRONG_LENGTHS
    if check_crc and body_length > 0 and crc32(view[body:topic]) & 0x7FFFFFFF != body_crc:
        return WRONG_CRC
    return int(total)


def hosts_length(sys_flag: int) -> int:
    """Bytes that the born host and the store host of a record take together."""
    return (20 if sys_flag & _BORN_HOST_V6 else 8) + (20 if sys_flag & _STORE_HOST_V6 else 8)


def store_timestamp_of(view: memoryview, position: int) -> int:
    """The store timestamp in ms of the record at a position of a view; the caller knows that there is one."""
    (sys_flag,) = _INT.unpack_from(view, position + 36)
    at = position + _STORE_TIMESTAMP + (20 if sys_flag & _BORN_HOST_V6 else 8)
    (timestamp,) = _LONG.unpack_from(view, at)
    return int(timestamp)


def queue_key(topic: bytes, queue_id: int) -> bytes:
    """One key for a queue that costs little to build from a record: the bytes of the queue id, then the topic's."""
    return _INT.pack(queue_id) + topic


def topic_of(key: bytes) -> bytes:
    """The topic of a `queue_key`."""
    return key[4:]


def queue_id_of(key: bytes) -> int:
    """The queue id of a `queue_key`."""
    return int(_INT.unpack_from(key)[0])


def queue_key_at(view: memoryview, position: int) -> bytes | None:
    """The `queue_key` of the valid record at a position; None if it has no entry in a ConsumeQueue.

    Those are prepared and rolled-back messages, and RocketMQ 5's batches, which have queues of another kind.
    """
    _, magic, _, _, sys_flag, body_length = _HEAD.unpack_from(view, position)
    if sys_flag & _TRANSACTION in _WITHOUT_ENTRY or sys_flag & _INNER_BATCH:
        return None
    topic = position + 88
    if sys_flag & (_BORN_HOST_V6 | _STORE_HOST_V6):
        topic += hosts_length(sys_flag) - 16
        (body_length,) = _INT.unpack_from(view, topic - 4)
    topic += body_length
    length = view[topic]
    topic += 1
    if magic == MESSAGE_MAGIC_V2:
        length = length << 8 | view[topic]
        topic += 1
    return bytes(view[position + 12 : position + 16]) + bytes(view[topic : topic + length])


class Kind(Enum):
    """What lies at an offset of the log."""

    RECORD = "record"
    BLANK = "blank"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A record, the blank that fills a file's end, or the first bytes that are neither; `reason` says why not."""

    kind: Kind
    physical_offset: int
    size_bytes: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the valid records of a log stop, and why; `last_record_offset` and `last_timestamp` are -1 if there was none."""

    offset: int
    reason: str
    records: int
    last_record_offset: int
    last_timestamp: int


class LogSource(Protocol):
    """What a scan reads from: a MappedFileQueue or a CommitLogReader."""

    def file_for(self, offset: int) -> MappedFile | None:
        """The file that contains this offset, or None."""


def scan(source: LogSource, start: int, end: int | None, check_crc: bool) -> Iterator[Stretch]:
    """The records and blanks of the log from `start` (a record's begin) up to `end`, or up to the last file.

    The first thing that is neither is given as BAD and ends the scan. A missing file ends it without a word.
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
    """Where the valid records that begin at `start` stop: the same walk as `scan`, without an object a record."""
    offset, records, last_offset, last_timestamp = start, 0, -1, -1
    reason = "no further file"
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
    """Goes over the valid records of one file: (position after them, how many, position of the last, what stopped it)."""
    count, last = 0, -1
    while True:
        size = check_record(view, position, limit, start_offset + position, check_crc)
        if size <= 0:
            return position, count, last, size
        last = position
        position += size
        count += 1
