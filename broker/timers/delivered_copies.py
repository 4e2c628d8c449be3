"""Finds in the log the timer messages that were delivered after the last checkpoint (docs/storage/timers.md, "At the start")."""

from collections.abc import Callable, Iterator

from broker.timers.timer_redirect import DELIVERED_RECORD, due_of_record
from headrace.model import properties
from headrace.model.names import TIMER_TOPIC
from store.query.by_bytes import search

Delivered = dict[tuple[int, str, str], int]
"""Physical offset of a waiting record, topic and id of a message that says that it was delivered for it: when it was due (ms).

The offset alone is not sufficient: a message that is sent back, and its retries, keep the property.
"""

_MARK = DELIVERED_RECORD.encode() + b"\x01"


def delivered_since(
    start: int, end: int, file_size: int, read_on: Callable[[int], memoryview | None], found: Delivered
) -> Iterator[None]:
    """Adds to `found` the deliveries between two physical offsets, a range of the log at each step."""
    for records in search(_MARK, start, end, file_size, read_on):
        for record in records:
            text = record.properties.get(DELIVERED_RECORD, "")
            if record.topic != TIMER_TOPIC and text.isascii() and text.isdecimal():
                unique_id = record.properties.get(properties.UNIQ_KEY, "")
                found[int(text), record.topic, unique_id] = due_of_record(record.properties) or 0
        yield
