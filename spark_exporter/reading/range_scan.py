"""Reads one range of the log: Arrow batches of its rows, and its damage.

Every engine reads ranges through this module. The records of a range begin at or after `start` and before `end`; the last of
them may extend beyond `end`. Cuts between ranges may be guesses: `landed` is the offset of the first record at or after `end`, and only if it equals `end`
was the next range's start a record. So a chain of ranges with a known first start, in which each one landed on the next one's start, has been
cut only at records (`docs/spec/spark.md` section 3). The driver checks this before it commits.

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
"""# limit: bytes of log decoded at a time, so that memory does not depend on the segment."""

_RAW_KEPT: Final = 1 << 20  # limit: bytes of damage that are kept; more than the largest record of brokers by default
_READ_AHEAD: Final = 4 * WINDOW


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range of one segment: the unit of planning, writing and committing.

    Records that begin at or after `start` and before `end`. `limit`: the end of the segment's records, beyond which nothing is read.
    """

    segment: Segment
    start: int
    end: int
    limit: int

    @property
    def size_bytes(self) -> int:
        """The size of the range."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """What is read from each record, and the constants of the rows. Picklable."""

    cluster: str = ""
    broker_name: str = ""
    choice: RecordChoice = field(default_factory=RecordChoice)
    columns: tuple[str, ...] | None = None
    """Only these columns, in this order; None: all. Other columns are not read."""
    inflate: bool = True
    """Whether compressed bodies are decompressed; otherwise they are returned as stored."""
    all_properties: bool = False
    """The map also has UNIQ_KEY, KEYS and TAGS."""
    strict: bool = False
    """Whether damage raises DamagedRecords instead of being quarantined."""

    @property
    def schema(self) -> pa.Schema:
        """Of the batches. Raises ExportError for an unknown column."""
        return chosen(self.columns)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are not a valid record: `size_bytes` from a physical offset on, and the first of them."""

    physical_offset: int
    size_bytes: int
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Window:
    """The result of one step of a scan: rows, if there were any, and damage."""

    rows: pa.RecordBatch | None
    damage: Sequence[Damage]


class RangeScan:
    """One reading of one range. Once `windows` or `batches` has ended, the rest is known:

    `landed` (see the module), the numbers of `records` scanned, `rows` returned and ranges `damaged`. `position` is the progress.
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
        """Store timestamp of the last valid record, ms; 0 if there was none."""
        self.last_physical_offset = -1
        """Its physical offset."""

    @property
    def done_bytes(self) -> int:
        """How much of the range has been read, for a progress bar."""
        return self.position - self._range.start

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in log order, in non-empty batches. Raises SourceError, and DamagedRecords if `strict`."""
        for window in self.windows():
            if window.rows is not None:
                yield window.rows

    def windows(self) -> Iterator[Window]:
        """The same with the damage, window by window."""
        options = self._options
        columns = record_columns_of(options)
        with open_segment(self._range.segment) as descriptor:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            memory, needed = bytearray(self._window_bytes), 0
            while self.position < self._range.end:
                # The last record may extend beyond the end of the range.
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
        """Continue at the next certain record; the bytes before it are damage."""
        start = self.position
        found = find_next_record(descriptor, self._range.segment, start + 1, self._range.limit)
        self.position = self._range.limit if found is None else found
        return self._damage(descriptor, start, self.position - start, reason)

    def _damage(self, descriptor: int, offset: int, size_bytes: int, reason: str) -> Damage:
        return read_damage(descriptor, self._range.segment, self._options, offset, size_bytes, reason)


def record_columns_of(options: ScanOptions, room_bytes: int = 0) -> RecordColumns:
    """A decoder for the requested columns."""
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
    """The rows just decoded. Callers must not keep them: the memory of released bodies is reused."""
    rows = as_batch(columns, options.cluster, options.broker_name, options.schema) if columns.rows else None
    return Window(rows, damage)


def read_damage(
    descriptor: int, segment: Segment, options: ScanOptions, offset: int, size_bytes: int, reason: str
) -> Damage:
    """Corrupt bytes, with the first of them. Raises DamagedRecords if `strict`, SourceError."""
    if options.strict:
        raise DamagedRecords(
            f"{segment.path}: {size_bytes} corrupt bytes at physical offset {offset}: {reason}; run without --strict to quarantine them"
        )
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
