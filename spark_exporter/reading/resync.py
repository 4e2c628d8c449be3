"""Finds the next record in a stretch of log where none is known to begin (`spec/spark.md` section 3).

A magic code alone proves nothing: a body may hold whole records, as dead letters and shipped logs do. A place is taken if the record there
says that it lies there and its lengths make its size. That is safe against accident; what is found is proven once more by the landing check.
"""

from typing import Final

from headrace.protocol.record import BLANK_MAGIC, check_record
from spark_exporter.reading.segments import Segment, read_into

_WINDOW: Final = 4 << 20  # limit: what is read at a time
_MAGIC_START: Final = b"\xda\xa3\x20"
_MAGICS: Final = (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab")
_BLANK: Final = (BLANK_MAGIC & 0xFFFFFFFF).to_bytes(4, "big")
_HEAD: Final = 36  # up to the end of the physical offset


def find_record(descriptor: int, segment: Segment, from_offset: int, limit: int) -> int | None:
    """The physical offset of the first record, or blank record, from `from_offset` on; None if there is none below `limit`.

    `limit`: no record reaches beyond it.
    """
    offset = from_offset
    while limit - offset >= 8:
        window = memoryview(bytearray(min(_WINDOW, limit - offset)))
        read_into(descriptor, segment, window, offset)
        for at in _candidates(window):
            if _is_record(descriptor, segment, window, at, offset, limit):
                return offset + at
        # What begins in the last bytes is seen whole in the next window.
        offset += max(8, len(window) - _HEAD) if offset + len(window) < limit else len(window)
    return None


def _candidates(window: memoryview) -> list[int]:
    """Where records might begin: four bytes before each magic code."""
    data = bytes(window)
    places = []
    for start in (_MAGIC_START, _BLANK):
        at = data.find(start, 4)
        while at >= 0:
            places.append(at - 4)
            at = data.find(start, at + 1)
    return sorted(places)


def _is_record(descriptor: int, segment: Segment, window: memoryview, at: int, offset: int, limit: int) -> bool:
    here = offset + at
    size = int.from_bytes(window[at : at + 4], "big", signed=True)
    magic = bytes(window[at + 4 : at + 8])
    if magic == _BLANK:
        return here + size == segment.end
    if magic not in _MAGICS or at + _HEAD > len(window) or here + size > limit or size < _HEAD:
        return False
    if int.from_bytes(window[at + 28 : at + 36], "big", signed=True) != here:
        return False
    record = window[at : at + size]
    if len(record) < size:
        record = memoryview(bytearray(size))
        read_into(descriptor, segment, record, here)
    return check_record(record, check_crc=False) == (True, size)
