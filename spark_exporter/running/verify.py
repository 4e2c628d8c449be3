"""Compares a target with the log, range by range: `headrace export verify`.

For each range in the manifests, the log is decoded again and the table is read as its readers read it. Rows are counted and hashed, with all
columns and the body; a range matches if counts and sums of hashes are equal. The sum does not depend on the order of rows, so compacted tables can
be verified, and duplicate rows are detected.
"""

import bisect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Final
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from spark_exporter.errors import SourceError, TargetError
from spark_exporter.planning.plan import Source
from spark_exporter.reading.range_scan import ByteRange, RangeScan, ScanOptions
from spark_exporter.reading.schema import BODY_COLUMN, MESSAGES
from spark_exporter.targets.ledger import ExportedRange
from spark_exporter.targets.open_target import Target
from spark_exporter.writing.body_schema import TableBodies
from spark_exporter.writing.layout import Layout

_NOT_COMPARED: Final = {
    "cluster",
    "properties",
}  # what the operator gives, and a map, whose order its readers may change
_COMPARED: Final = tuple(name for name in MESSAGES.names if name not in _NOT_COMPARED)
_NUMBER: Final = pa.int64()
_MASK: Final = (1 << 64) - 1
_SPREAD: Final = 0x9E3779B97F4A7C15  # an odd number with many set bits, so that similar rows have different hashes


@dataclass(frozen=True, slots=True)
class Difference:
    """A range whose rows differ between log and table."""

    range: ExportedRange
    said: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What was compared, and what differs. `unread`: number of ranges whose segments are no longer in the log."""

    ranges: int
    rows: int
    differences: tuple[Difference, ...]
    unread: int
    strays: tuple[str, ...] = ()
    """Files that belong to no commit, but that readers which list the folder would read."""


@dataclass(slots=True)
class _Sum:
    rows: int = 0
    value: int = 0


def verify(
    source: Source, target: Target, broker_name: str, report: Callable[[int, int], None] = lambda _done, _total: None
) -> Verified:
    """Compare one broker's log with the target. `report(done, total)` in bytes of log. Raises SourceError, TargetError."""
    last = target.ledger.last()
    if last is not None and broker_name not in last.progress:
        there = ", ".join(sorted(last.progress))
        raise TargetError(f"{target.sink.work.uri} has no data of broker {broker_name}; it has: {there}")
    ranges = sorted(
        (each for commit in target.ledger.commits() if commit.broker_name == broker_name for each in commit.ranges),
        key=lambda each: each.start,
    )
    in_table = _sums_of_table(target, broker_name, ranges)
    spec = target.spec
    options = ScanOptions(
        "", broker_name, spec.choice, _COMPARED, inflate=spec.inflate, all_properties=spec.all_properties
    )
    differences: list[Difference] = []
    rows = unread = done = damaged = 0
    total = sum(each.end - each.start for each in ranges)
    for place, each in enumerate(ranges):
        done += each.end - each.start
        damaged += each.damaged
        byte_range = _find_range(source, each)
        if byte_range is None:
            unread += 1
            if in_table[place].rows != each.rows:
                said = f"{in_table[place].rows} rows in the table, but {each.rows} were exported; the range is no longer in the log"
                differences.append(Difference(each, said))
            continue
        in_log = _Sum()
        scan = RangeScan(byte_range, options)
        for batch in scan.batches():
            for part in [batch] if spec.body is None else _typed(batch, spec.layout, target.sink.bodies):
                for _, value in _row_values(part):
                    in_log.rows += 1
                    in_log.value = (in_log.value + value) & _MASK
        rows += in_log.rows
        if in_log != in_table[place]:
            if in_log.rows != in_table[place].rows:
                said = f"{in_table[place].rows} rows in the table, {in_log.rows} in the log"
            else:
                said = f"{in_log.rows} rows with different content"
            differences.append(Difference(each, said))
        report(done, total)
    if in_table[-1].rows:
        outside = replace(ranges[-1], start=0) if ranges else ExportedRange(0, 0, 0, 0, 0, 0)
        differences.append(
            Difference(outside, f"{in_table[-1].rows} rows in the table are outside all exported ranges")
        )
    quarantined = target.sink.count_quarantined(target.ledger)
    if (
        len({commit.broker_name for commit in target.ledger.commits() if commit.kind == "export"}) == 1
        and quarantined != damaged
    ):
        differences.append(Difference(ranges[-1], f"{quarantined} rows in quarantine, but {damaged} were written"))
    strays = tuple(target.sink.strays(target.ledger))
    return Verified(len(ranges), rows, tuple(differences), unread, strays)


def _sums_of_table(target: Target, broker_name: str, ranges: list[ExportedRange]) -> list[_Sum]:
    """The rows of the table by range, and last those outside all ranges."""
    starts = [each.start for each in ranges]
    sums = [_Sum() for _ in range(len(ranges) + 1)]
    for batch in target.sink.read(target.ledger, (*_COMPARED, BODY_COLUMN)):
        ours = batch.filter(pc.equal(batch["broker_name"].cast(pa.string()), pa.scalar(broker_name)))
        for offset, value in _row_values(ours):
            place = bisect.bisect_right(starts, offset) - 1
            if place < 0 or offset >= ranges[place].end:
                place = len(ranges)
            sums[place].rows += 1
            sums[place].value = (sums[place].value + value) & _MASK
    return sums


def _typed(batch: pa.RecordBatch, layout: Layout, bodies: TableBodies) -> Iterator[pa.RecordBatch]:
    """A batch of the log with the columns of its table."""
    for partition, rows in layout.split(batch):
        schema = bodies.of(partition.table)
        yield rows if schema is None else schema.type_bodies(rows)[0]


def _row_values(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Offset and hash of each row."""
    texts = [
        pc.fill_null(_as_text(batch[name]), "\x00") for name in _COMPARED if name not in {"commit_log_offset", "body"}
    ]
    joined = pc.binary_join_element_wise(*texts, pa.scalar("\x01", pa.string()))
    offsets = batch["commit_log_offset"].to_pylist()
    typed = batch[BODY_COLUMN] if BODY_COLUMN in batch.schema.names else repeat(None, batch.num_rows)
    for offset, text, body, said in zip(offsets, joined.cast(pa.binary()), batch["body"], typed, strict=True):
        mixed = crc32(text.as_buffer())
        if body.is_valid:
            mixed = crc32(body.as_buffer(), mixed)
        if said is not None and said.is_valid:
            mixed = crc32(json.dumps(said.as_py(), default=str).encode(), mixed)
        yield offset, ((mixed << 32 | mixed) ^ offset * _SPREAD) * _SPREAD & _MASK


def _as_text(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz="UTC")).cast(_NUMBER)
    return column.cast(pa.string())


def _find_range(source: Source, exported: ExportedRange) -> ByteRange | None:
    for segment in source.segments:
        if segment.base == exported.segment and exported.end <= segment.end:
            return ByteRange(segment, exported.start, exported.end, exported.end)
        if segment.base == exported.segment:
            raise SourceError(f"{segment.path} is shorter than the range that was exported from it")
    return None
