"""Finds in the log which waiting records have been delivered since the last checkpoint (docs/storage/timers.md, "At the start")."""

from collections.abc import Callable, Iterator
from struct import Struct

from broker.timer.timers import DELIVERED_RECORD, due_of_record
from headrace.errors import RemoteProtocolError
from headrace.model import properties
from headrace.model.names import TIMER_TOPIC
from headrace.protocol.record import BLANK_MAGIC, decode_record

Delivered = dict[tuple[int, str, str], int]
"""Physical offset of a waiting record, topic and id of a message that says that it was delivered for it: when it was due (ms).

Not the offset alone: the property stays with a message that is sent back, and so with its retries.
"""

_HEAD = Struct(">ii")
_MARK = DELIVERED_RECORD.encode() + b"\x01"
_STRETCH = 1 << 20  # limit: a few milliseconds; others have their turn in between


def delivered_since(
    start: int, end: int, file_size: int, read_on: Callable[[int], memoryview | None], found: Delivered
) -> Iterator[None]:
    """Adds to `found` what has been delivered between two physical offsets, a stretch at each step.

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
        data = bytes(view[: max(_STRETCH, size)])
        searched = _search(data, found)
        offset = offset + searched if searched else _next_file(offset, file_size)
        yield


def _search(data: bytes, found: Delivered) -> int:
    """Looks at the whole records at the beginning of the data; how many bytes those are."""
    at = 0
    # A look at each record's size costs less than a message's own handling did; what has no mark is not looked into.
    mark = data.find(_MARK)
    while at + _HEAD.size <= len(data):
        size, magic = _HEAD.unpack_from(data, at)
        if magic == BLANK_MAGIC or size <= 0 or at + size > len(data):
            break
        if at <= mark < at + size:
            _note(data, at, found)
        at += size
        if 0 <= mark < at:
            mark = data.find(_MARK, at)
    return at


def _note(data: bytes, at: int, found: Delivered) -> None:
    try:
        record = decode_record(data, at)
    except RemoteProtocolError:
        return
    text = record.properties.get(DELIVERED_RECORD, "")
    if record.topic != TIMER_TOPIC and text.isascii() and text.isdecimal():
        unique_id = record.properties.get(properties.UNIQ_KEY, "")
        found[int(text), record.topic, unique_id] = due_of_record(record.properties) or 0


def _next_file(offset: int, file_size: int) -> int:
    return offset - offset % file_size + file_size
