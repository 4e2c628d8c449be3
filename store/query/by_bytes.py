"""Finds records in the log that contain given bytes. Used to find deliveries of a killed broker.

Damaged records are skipped up to the next intact one.
"""

from collections.abc import Callable, Iterator

from headrace.errors import RemoteProtocolError
from headrace.model.message import MessageExt
from headrace.protocol.record import decode_record
from headrace.protocol.record_layout import MAGIC_AT, MAGIC_START
from store.commit_log.record_check import BLANK, check_record

_STRETCH = 1 << 20  # limit: a few milliseconds; other requests are served in between


def search(
    mark: bytes, start: int, end: int, file_size: int, read_on: Callable[[int], memoryview | None]
) -> Iterator[list[MessageExt]]:
    """The records between two physical offsets that have the bytes `mark` anywhere, those of a range at each step.

    A record or blank begins at `start`. Deleted and damaged records are skipped.
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
    """Searches the complete records at the beginning of the data, which begins at a physical offset. Returns their total size in bytes."""
    at, view = 0, memoryview(data)
    # Only the lengths of records are read; a record without the mark is not decoded.
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
    """How far from its beginning the data may have the next record, according to the magic code; at least 1."""
    found = data.find(MAGIC_START, 1 + MAGIC_AT)
    return found - MAGIC_AT if found >= 0 else max(1, len(data) - MAGIC_AT - len(MAGIC_START) + 1)
