"""Finds records in the log that contain given bytes. Used to find deliveries of a killed broker.

What the disk has damaged is skipped up to the next whole record.
"""

from collections.abc import Callable, Iterator

from headrace.errors import RemoteProtocolError
from headrace.model.message import MessageExt
from headrace.protocol.record import decode_record
from headrace.protocol.record_layout import MAGIC_AT, MAGIC_START
from store.commit_log.record_check import BLANK, check_record

_STRETCH = 1 << 20  # limit: a few milliseconds; others have their turn in between


def search(
    mark: bytes, start: int, end: int, file_size: int, read_on: Callable[[int], memoryview | None]
) -> Iterator[list[MessageExt]]:
    """The records between two physical offsets that have the bytes `mark` anywhere, those of a range at each step.

    `start` is where a record or blank begins. What no longer exists, and what is damaged, is skipped.
    """
    offset = start
    while offset < end:
        view = read_on(offset)
        size = BLANK if view is None else check_record(view, 0, len(view), offset, check_crc=False)
        if view is None or size == BLANK:
            offset += file_size - offset % file_size
        elif size < 0:
            offset += _distance_to_magic(bytes(view[:_STRETCH]))
            yield []
        else:
            found: list[MessageExt] = []
            offset += _search(bytes(view[: max(_STRETCH, size)]), offset, mark, found)
            yield found


def _search(data: bytes, offset: int, mark: bytes, found: list[MessageExt]) -> int:
    """Looks at the whole records at the beginning of the data, which is at a physical offset. Returns how many bytes those are."""
    at, view = 0, memoryview(data)
    # A look at each record's lengths costs less than the record's own storing did; what has no mark is not looked into.
    mark_at = data.find(mark)
    while (size := check_record(view, at, len(data), offset + at, check_crc=False)) > 0:
        if at <= mark_at < at + size:
            try:
                found.append(decode_record(data, at))
            except RemoteProtocolError:
                pass
        at += size
        if 0 <= mark_at < at:
            mark_at = data.find(mark, at)
    return at


def _distance_to_magic(data: bytes) -> int:
    """How far behind its beginning the data may have a record, going by the magic code; at least 1."""
    found = data.find(MAGIC_START, 1 + MAGIC_AT)
    return found - MAGIC_AT if found >= 0 else max(1, len(data) - MAGIC_AT - len(MAGIC_START) + 1)
