"""Reads one range of the log: Arrow batches of its rows, and what in it is damaged.

Whoever writes a range, whatever the engine, reads it through this. A range says where it begins and before where its records begin; the last of
them may reach beyond `end`. Cuts between ranges may be guesses: `landed` says where the first record at or after `end` lies, and only if that is `end`
was the next range's start a record. So: a chain of ranges whose first start is known, and each of which landed on the next one's start, has been
cut at true records only (`docs/spec/spark.md` section 3). Whoever commits checks that.

In Spark: one input partition is one `ByteRange` (it pickles); `read()` yields `RangeScan(range, options).batches()`.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from spark_exporter.errors import DamagedRecords
from spark_exporter.reading import property_columns, record_columns
from spark_exporter.reading.arrow_batches import as_batch
from spark_exporter.reading.next_record import find_next_record
from spark_exporter.reading.record_choice import RecordChoice
from spark_exporter.reading.record_columns import RecordColumns
from spark_exporter.reading.schema import QUARANTINE, chosen
from spark_exporter.reading.segments import Segment, open_segment, read_into

WINDOW: Final = 4 << 20
"""# limit: bytes of log decoded at a time, so that what is in memory does not depend on the segment."""

_RAW_KEPT: Final = 1 << 20  # limit: of a hole so many bytes are kept, of a record more than brokers take by default
_READ_AHEAD: Final = 4 * WINDOW


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A stretch of one segment: the unit of planning, writing and committing.

    Records that begin at `start` or after, before `end`. `limit`: the settled end of the segment's records, beyond which nothing is read.
    """

    segment: Segment
    start: int
    end: int
    limit: int

    @property
    def size_bytes(self) -> int:
        """How much of the log it is."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """What is to be read out of each record, and how the constants of the rows read. Pickles."""

    cluster: str = ""
    broker_name: str = ""
    choice: RecordChoice = field(default_factory=RecordChoice)
    columns: tuple[str, ...] | None = None
    """These columns only, in this order; None: all. What is not asked for is not read out."""
    inflate: bool = True
    """Compressed bodies are decompressed; else they stay as stored."""
    all_properties: bool = False
    """The map also has UNIQ_KEY, KEYS and TAGS."""
    strict: bool = False
    """Damage raises DamagedRecords instead of going into quarantine."""

    @property
    def schema(self) -> pa.Schema:
        """Of the batches. Raises ExportError for an unknown column."""
        return chosen(self.columns)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no good record: `size_bytes` from a physical offset on, and the first of them."""

    physical_offset: int
    size_bytes: int
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Window:
    """What one step of a scan has come to: some rows, if there were any, and what was damaged among them."""

    rows: pa.RecordBatch | None
    damage: Sequence[Damage]


class RangeScan:
    """One reading of one range. Once `windows` or `batches` has ended, the rest is known:

    `landed` (see the module), `records` walked over, `rows` yielded, stretches `damaged`. `position` is how far it is.
    """

    def __init__(self, byte_range: ByteRange, options: ScanOptions, window_bytes: int = WINDOW) -> None:
        self._range = byte_range
        self._options = options
        self._window_bytes = window_bytes
        self.position = byte_range.start
        self.landed = -1
        self.records = 0
        self.rows = 0
        self.damaged = 0
        self.last_store_timestamp = 0
        """Of the last good record that was walked over, ms; 0: there was none."""
        self.last_physical_offset = -1
        """Where that lies."""

    @property
    def done_bytes(self) -> int:
        """How much of the range has been read, for a progress bar."""
        return self.position - self._range.start

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the log's order, in batches that are none of them empty. Raises SourceError, and DamagedRecords if that is asked for."""
        for window in self.windows():
            if window.rows is not None:
                yield window.rows

    def windows(self) -> Iterator[Window]:
        """The same, with what is damaged: a window after the other."""
        options = self._options
        columns = record_columns_of(options)
        with open_segment(self._range.segment) as descriptor:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            memory, needed = bytearray(self._window_bytes), 0
            while self.position < self._range.end:
                # The last record may reach beyond the range's end.
                length = min(max(self._window_bytes, needed), self._range.limit - self.position)
                if length > len(memory):
                    memory = bytearray(length)
                view = memoryview(memory)[:length]
                self._read(descriptor, view)
                answer = self._decode(columns, view)
                damage = [self._damage(descriptor, *each) for each in columns.damaged]
                needed = columns.needed if answer == record_columns.MORE else 0
                if answer == record_columns.BLANK:
                    self.position = self._range.segment.end
                elif answer == record_columns.BAD:
                    damage.append(self._pass_over(descriptor, columns.reason))
                self.rows += columns.rows
                self.damaged += len(damage)
                yield window_of(columns, options, damage)
        self.landed = self.position

    def _read(self, descriptor: int, view: memoryview) -> None:
        read_into(descriptor, self._range.segment, view, self.position)
        ahead = self.position - self._range.segment.base + len(view)
        os.posix_fadvise(descriptor, ahead, _READ_AHEAD, os.POSIX_FADV_WILLNEED)

    def _decode(self, columns: RecordColumns, view: memoryview) -> int:
        start = self.position
        stop = min(len(view), self._range.end - start)
        answer = columns.decode(view, start, 0, stop, self._range.limit)
        self.position = start + columns.position
        self.records += columns.records
        if columns.last_store_timestamp:
            self.last_store_timestamp = columns.last_store_timestamp
            self.last_physical_offset = columns.last_physical_offset
        return answer

    def _pass_over(self, descriptor: int, reason: str) -> Damage:
        """Go on at the next place where a record is sure to be; what lies before it is damage."""
        start = self.position
        found = find_next_record(descriptor, self._range.segment, start + 1, self._range.limit)
        self.position = self._range.limit if found is None else found
        return self._damage(descriptor, start, self.position - start, reason)

    def _damage(self, descriptor: int, offset: int, size_bytes: int, reason: str) -> Damage:
        return read_damage(descriptor, self._range.segment, self._options, offset, size_bytes, reason)


def record_columns_of(options: ScanOptions, room_bytes: int = 0) -> RecordColumns:
    """A decoder for what is asked for."""
    choice, names = options.choice, set(options.schema.names)
    return RecordColumns(
        choice.is_wanted,
        choice.first_ms,
        choice.end_ms,
        with_body="body" in names,
        with_properties=not names.isdisjoint(property_columns.COLUMNS),
        with_hosts=not names.isdisjoint(record_columns.HOST_COLUMNS),
        inflate=options.inflate,
        all_properties=options.all_properties,
        room_bytes=room_bytes,
    )


def window_of(columns: RecordColumns, options: ScanOptions, damage: Sequence[Damage]) -> Window:
    """What the decoder has just left. Not to be kept by who reads on: memory of bodies that nobody has is used again."""
    rows = as_batch(columns, options.cluster, options.broker_name, options.schema) if columns.rows else None
    return Window(rows, damage)


def read_damage(
    descriptor: int, segment: Segment, options: ScanOptions, offset: int, size_bytes: int, reason: str
) -> Damage:
    """A stretch that is no good record, with the first of its bytes. Raises DamagedRecords if that is asked for, SourceError."""
    if options.strict:
        raise DamagedRecords(f"{segment.path}: {size_bytes} damaged bytes at physical offset {offset}: {reason}")
    raw = bytearray(min(size_bytes, _RAW_KEPT))
    read_into(descriptor, segment, memoryview(raw), offset)
    return Damage(offset, size_bytes, reason, bytes(raw))


def quarantine_batch(damage: Sequence[Damage], options: ScanOptions) -> pa.RecordBatch:
    """The damage as rows of `schema.QUARANTINE`."""
    return pa.RecordBatch.from_pydict(
        {
            "cluster": [options.cluster] * len(damage),
            "broker_name": [options.broker_name] * len(damage),
            "commit_log_offset": [each.physical_offset for each in damage],
            "size": [each.size_bytes for each in damage],
            "reason": [each.reason for each in damage],
            "raw": [each.raw for each in damage],
        },
        schema=QUARANTINE,
    )
