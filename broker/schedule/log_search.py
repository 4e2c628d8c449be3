"""Finds records in the log by bytes that must be in them, fast enough to read what a broker wrote before it died."""

from collections.abc import Callable, Iterator
from struct import Struct

from headrace.errors import RemoteProtocolError
from headrace.model.message import MessageExt
from headrace.protocol.record import BLANK_MAGIC, decode_record

_HEAD = Struct(">ii")
_STRETCH = 1 << 20  # limit: a few milliseconds; others have their turn in between


def search(
    mark: bytes, start: int, end: int, file_size: int, read_on: Callable[[int], memoryview | None]
) -> Iterator[list[MessageExt]]:
    """The records between two physical offsets that have the bytes `mark` anywhere, those of a stretch at each step.

    `start` is where a record or blank begins. What is no longer there is passed over.
    """
    offset = start
    while offset < end:
        view = read_on(offset)
        if view is None or len(view) < _HEAD.size:
            offset = _next_file(offset, file_size)
            continue
        size, magic = _HEAD.unpack_from(view)
        if magic == BLANK_MAGIC or size <= 0:
            offset = _next_file(offset, file_size)
            continue
        found: list[MessageExt] = []
        searched = _search(bytes(view[: max(_STRETCH, size)]), mark, found)
        offset = offset + searched if searched else _next_file(offset, file_size)
        yield found


def _search(data: bytes, mark: bytes, found: list[MessageExt]) -> int:
    """Looks at the whole records at the beginning of the data; how many bytes those are."""
    at = 0
    # A look at each record's size costs less than the record's own storing did; what has no mark is not looked into.
    mark_at = data.find(mark)
    while at + _HEAD.size <= len(data):
        size, magic = _HEAD.unpack_from(data, at)
        if magic == BLANK_MAGIC or size <= 0 or at + size > len(data):
            break
        if at <= mark_at < at + size:
            try:
                found.append(decode_record(data, at))
            except RemoteProtocolError:
                pass
        at += size
        if 0 <= mark_at < at:
            mark_at = data.find(mark, at)
    return at


def _next_file(offset: int, file_size: int) -> int:
    return offset - offset % file_size + file_size
