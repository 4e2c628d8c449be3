"""What queries and streams have in common: find the end of a log, cut it into ranges, read a range.

A running broker is asked how far its log is durable (`read_log.ask_flushed_offset`). If no broker of ours runs on this
machine, the log ends after its last complete record.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from pyspark_commitlog.options import Place, ReadOptions
from spark_exporter.errors import SourceError
from spark_exporter.planning.plan import Source
from spark_exporter.reading.range_scan import ByteRange, RangeScan, ScanOptions, quarantine_batch
from spark_exporter.running.read_log import ask_flushed_offset


def find_end(source: Source, path: Path, known_offset: int | None = None) -> int:
    """How far the log may be read. `known_offset`: a record begins there, or the log ended there."""
    return source.find_end(known_offset, ask_flushed_offset(path))


def find_place(source: Source, place: Place, end: int) -> int:
    """The offset of the first record at or after a place, or `end` if there is none."""
    if place.time_ms is not None:
        return source.find_record_since(place.time_ms, end)
    return source.find_record_from(place.offset or 0, end)


def find_boundary(source: Source, start: int, wanted: int, end: int) -> int:
    """The offset of the first record at or after `wanted`, at most `end`. A record must begin at `start`."""
    for segment in source.segments:
        if wanted <= segment.base:
            return min(segment.base, end)
        if wanted < min(segment.end, end):
            scan = RangeScan(
                ByteRange(segment, max(start, segment.base), wanted, min(segment.end, end)), ScanOptions(columns=())
            )
            for _ in scan.batches():
                pass
            return scan.landed
    return end


def cut(source: Source, start: int, end: int, options: ReadOptions) -> Sequence[ByteRange]:
    """Cuts the log into ranges for tasks."""
    return source.plan(start, end, options.workers, certain=options.whole_segments).ranges


def read_range(byte_range: ByteRange, options: ReadOptions, scan_options: ScanOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a range. Raises SourceError if it ends within a record: an error is better than wrong rows."""
    scan = RangeScan(byte_range, scan_options)
    for window in scan.windows():
        if options.is_quarantine:
            if window.damage:
                yield _as_promised(quarantine_batch(window.damage, scan_options), options.schema)
        elif window.rows is not None:
            yield _as_promised(window.rows, options.schema)
    if scan.landed != byte_range.end:
        raise SourceError(
            f"{byte_range.segment.path}: no record begins at {byte_range.end}, where the log was split (a message body "
            'looks like a record); use option("wholeSegments", "true")'
        )


def _as_promised(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    # The same buffers with the schema announced to Spark, which compares the two including nullability.
    return pa.RecordBatch.from_arrays(rows.columns, schema=schema)
