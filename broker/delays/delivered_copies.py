"""Finds in the log the delayed messages that a killed broker had delivered after it last stored its offsets.

`delayOffset.json` is some seconds behind the deliveries, and can contain only offsets. The file `timer/levels`, which is ours, adds:

    [{"physicalOffset": W, "offsetTable": {<level>: <offset>, …}}, …]

The log ended at W at the time of this table, so every delivery not covered by it is at W or beyond. It is written before
`delayOffset.json`, and has the table that was there as well as the one that comes: a kill between the two writes leaves a pair that
fits. If `delayOffset.json` has a table that is not in the file (a RocketMQ broker has used the store meanwhile), the file is ignored,
and some messages may be delivered again, as by RocketMQ.

A delivered copy has the waiting record's bytes except its location, so it is identified by them. Equal messages are counted.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from broker.errors import ConfigFileUnreadable
from broker.json_file import JsonFile
from headrace.errors import RemoteProtocolError
from headrace.model import properties
from headrace.model.message import MessageExt
from headrace.model.names import SCHEDULE_TOPIC
from store.query.by_bytes import search

Likeness = tuple[bytes, int, int, int, tuple[str, int]]
"""Properties, body's CRC, born timestamp, reconsume times, born host: the same for a waiting record and its delivered copy."""

_MARK = properties.DELAY.encode() + b"\x01"


def likeness(record: MessageExt) -> Likeness:
    """What identifies a delivered copy."""
    return (
        record.properties_raw, record.body_crc, record.born_timestamp, record.reconsume_times, record.born_host,
    )  # fmt: skip


def delivered_since(
    start: int, end: int, file_size: int, read_on: Callable[[int], memoryview | None], found: Counter[Likeness]
) -> Iterator[None]:
    """Counts in `found` the delivered copies between two physical offsets, a range of the log at each step."""
    for records in search(_MARK, start, end, file_size, read_on):
        for record in records:
            # A copy is in the queue that its properties name; a waiting record is elsewhere.
            if record.topic != SCHEDULE_TOPIC and record.properties.get(properties.REAL_TOPIC) == record.topic:
                found[likeness(record)] += 1
        yield


Progress = tuple[Mapping[int, int], int]
"""A table of level to queue offset, and the end of the log at that time."""


class LevelsFile:
    """The end of the log at the time of the delay offsets."""

    def __init__(self, path: Path) -> None:
        self._file = JsonFile(path)

    def find(self, table: Mapping[int, int]) -> int | None:
        """The physical offset to search from; None unless the file has this table."""
        try:
            found = self._file.load(_decode) or []
        except ConfigFileUnreadable:
            return None
        return max((physical_offset for stored, physical_offset in found if stored == table), default=None)

    def write(self, progress: Iterable[Progress]) -> None:
        """Replaces it. Raises OSError."""
        entries = [
            {"physicalOffset": physical_offset, "offsetTable": {str(level): offset for level, offset in table.items()}}
            for table, physical_offset in progress
        ]
        self._file.save(json.dumps(entries))


def _decode(data: bytes) -> list[Progress]:
    try:
        return [
            (
                {int(level): int(offset) for level, offset in entry["offsetTable"].items()},
                int(entry["physicalOffset"]),
            )
            for entry in json.loads(data)
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RemoteProtocolError(f"invalid delay progress file: {error}") from None
