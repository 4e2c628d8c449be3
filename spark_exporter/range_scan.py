"""Reads one range of the log: Arrow batches of its rows, and what in it is damaged.

Whoever writes a range, whatever the engine, reads it through this. A range says where it begins and before where its records begin; the last of
them may reach beyond `end`. Cuts between ranges may be guesses: `landed` says where the first record at or after `end` lies, and only if that is `end`
was the next range's start a record. So: a chain of ranges whose first start is known, and each of which landed on the next one's start, has been
cut at true records only (`spec/spark.md` section 3). Whoever commits checks that.

In Spark: one input partition is one `ByteRange` (it pickles); `read()` yields `RangeScan(range, options).batches()`.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from spark_exporter import property_columns, record_columns
from spark_exporter.arrow_batches import as_batch
from spark_exporter.errors import DamagedRecords
from spark_exporter.record_choice import RecordChoice
from spark_exporter.record_columns import RecordColumns
from spark_exporter.resync import find_record
from spark_exporter.schema import QUARANTINE, chosen
from spark_exporter.segments import Segment, open_segment, read_into

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


class RangeScan:
    """One reading of one range. Once `batches` has ended, the rest is known:

    `landed` (see the module), `records` walked over, `rows` yielded, `damage`. `position` is how far it is, for a progress bar.
    """

    def __init__(self, byte_range: ByteRange, options: ScanOptions, window_bytes: int = WINDOW) -> None:
        self._range = byte_range
        self._options = options
        self._window_bytes = window_bytes
        self.position = byte_range.start
        self.landed = -1
        self.records = 0
        self.rows = 0
        self.damage: list[Damage] = []
        self.last_store_timestamp = 0
        """Of the last good record that was walked over, ms; 0: there was none."""
        self.last_physical_offset = -1
        """Where that lies."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the log's order, in batches that are none of them empty. Raises SourceError, and DamagedRecords if that is asked for."""
        schema = self._options.schema
        columns = self._columns(schema)
        with open_segment(self._range.segment) as descriptor:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            memory, needed = bytearray(self._window_bytes), 0
            while self.position < self._range.end:
                # The last record may reach beyond the range's end.
                length = min(max(self._window_bytes, needed), self._range.limit - self.position)
                if length > len(memory):
                    memory = bytearray(length)
                window = memoryview(memory)[:length]
                self._read(descriptor, window)
                answer = self._decode(columns, window)
                if columns.rows:
                    self.rows += columns.rows
                    yield as_batch(columns, self._options.cluster, self._options.broker_name, schema)
                for offset, size, reason in columns.damaged:
                    self._quarantine(descriptor, offset, size, reason)
                needed = columns.needed if answer == record_columns.MORE else 0
                if answer == record_columns.BLANK:
                    self.position = self._range.segment.end
                elif answer == record_columns.BAD:
                    self._pass_over(descriptor, columns.reason)
        self.landed = self.position

    def _columns(self, schema: pa.Schema) -> RecordColumns:
        choice, names = self._options.choice, set(schema.names)
        return RecordColumns(
            choice.is_wanted,
            choice.first_ms,
            choice.end_ms,
            with_body="body" in names,
            with_properties=not names.isdisjoint(property_columns.COLUMNS),
            with_hosts=not names.isdisjoint(record_columns.HOST_COLUMNS),
            inflate=self._options.inflate,
            all_properties=self._options.all_properties,
        )

    def _read(self, descriptor: int, window: memoryview) -> None:
        read_into(descriptor, self._range.segment, window, self.position)
        ahead = self.position - self._range.segment.base + len(window)
        os.posix_fadvise(descriptor, ahead, _READ_AHEAD, os.POSIX_FADV_WILLNEED)

    def _decode(self, columns: RecordColumns, window: memoryview) -> int:
        start = self.position
        stop = min(len(window), self._range.end - start)
        answer = columns.decode(window, start, 0, stop, self._range.limit)
        self.position = start + columns.position
        self.records += columns.records
        if columns.last_store_timestamp:
            self.last_store_timestamp = columns.last_store_timestamp
            self.last_physical_offset = columns.last_physical_offset
        return answer

    def _pass_over(self, descriptor: int, reason: str) -> None:
        """Go on at the next place where a record is sure to be; what lies before it is damage."""
        found = find_record(descriptor, self._range.segment, self.position + 1, self._range.limit)
        next_offset = self._range.limit if found is None else found
        self._quarantine(descriptor, self.position, next_offset - self.position, reason)
        self.position = next_offset

    def _quarantine(self, descriptor: int, offset: int, size: int, reason: str) -> None:
        if self._options.strict:
            raise DamagedRecords(
                f"{self._range.segment.path}: {size} damaged bytes at physical offset {offset}: {reason}"
            )
        raw = bytearray(min(size, _RAW_KEPT))
        read_into(descriptor, self._range.segment, memoryview(raw), offset)
        self.damage.append(Damage(offset, size, reason, bytes(raw)))


def quarantine_batch(damage: list[Damage], options: ScanOptions) -> pa.RecordBatch:
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
