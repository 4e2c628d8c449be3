"""Finds the next record in a part of the log where no record is known to begin (`docs/spec/spark.md` section 3).

A magic code alone proves nothing: a body may contain complete records, as in dead letters and shipped logs. A position is accepted if its record
contains this physical offset and its lengths add up to its size. This is safe against accidents; the landing check verifies the result again.
"""

from typing import Final

from headrace.protocol.big_endian import load_i32, load_i64
from headrace.protocol.record import check_record
from headrace.protocol.record_layout import (
    BLANK_MAGIC,
    END_FILE_MIN_BLANK_LENGTH,
    MAGIC_AT,
    MAGIC_START,
    MESSAGE_MAGIC,
    MESSAGE_MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    PHYSICAL_OFFSET_END,
    TOTAL_SIZE_AT,
)
from spark_exporter.reading.segments import Segment, read_into

_WINDOW: Final = 4 << 20  # limit: what is read at a time
_BLANK: Final = BLANK_MAGIC.to_bytes(4, "big", signed=True)


def find_next_record(descriptor: int, segment: Segment, from_offset: int, limit: int) -> int | None:
    """The physical offset of the first record, or blank record, from `from_offset` on; None if there is none below `limit`.

    `limit`: no record extends beyond it.
    """
    offset = from_offset
    while limit - offset >= END_FILE_MIN_BLANK_LENGTH:
        window = memoryview(bytearray(min(_WINDOW, limit - offset)))
        read_into(descriptor, segment, window, offset)
        for at in _candidates(window):
            if _is_record(descriptor, segment, window, at, offset, limit):
                return offset + at
        # A record that begins in the last bytes is complete in the next window.
        offset += (
            max(END_FILE_MIN_BLANK_LENGTH, len(window) - PHYSICAL_OFFSET_END)
            if offset + len(window) < limit
            else len(window)
        )
    return None


def _candidates(window: memoryview) -> list[int]:
    """Possible beginnings of records, by their magic codes."""
    data = bytes(window)
    places = []
    for start in (MAGIC_START, _BLANK):
        at = data.find(start, MAGIC_AT)
        while at >= 0:
            places.append(at - MAGIC_AT)
            at = data.find(start, at + 1)
    return sorted(places)


def _is_record(descriptor: int, segment: Segment, window: memoryview, at: int, offset: int, limit: int) -> bool:
    here = offset + at
    size = load_i32(window, at + TOTAL_SIZE_AT)
    magic = load_i32(window, at + MAGIC_AT)
    if magic == BLANK_MAGIC:
        return here + size == segment.end
    if magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2) or not PHYSICAL_OFFSET_END <= size <= limit - here:
        return False
    if at + PHYSICAL_OFFSET_END > len(window) or load_i64(window, at + PHYSICAL_OFFSET_AT) != here:
        return False
    record = window[at : at + size]
    if len(record) < size:
        record = memoryview(bytearray(size))
        read_into(descriptor, segment, record, here)
    return check_record(record, check_crc=False) == (True, size)
