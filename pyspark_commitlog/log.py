"""What queries and streams both do with a log: find its end, cut it into ranges, read a range.

How far a log that is being written is durable, its broker knows, and is asked (`read_log.ask_flushed_offset`). Where no broker of ours runs
on this machine the log goes up to its last whole record.
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
    """How far the log may be read. `known_offset`: a record lies there, or the log ended there."""
    return source.find_end(known_offset, ask_flushed_offset(path))


def find_place(source: Source, place: Place, end: int) -> int:
    """The first record at or after a place; `end` if there is none before."""
    if place.time_ms is not None:
        return source.find_record_since(place.time_ms, end)
    return source.find_record_from(place.offset or 0, end)


def find_boundary(source: Source, start: int, wanted: int, end: int) -> int:
    """Where the first record at or after `wanted` begins, `end` at most. A record begins at `start`, from where the log is walked."""
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
    """Ranges for tasks."""
    return source.plan(start, end, options.workers, certain=options.whole_segments).ranges


def read_range(byte_range: ByteRange, options: ReadOptions, scan_options: ScanOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a range. Raises SourceError where the next range's cut was false: better no answer than a wrong one."""
    scan = RangeScan(byte_range, scan_options)
    for window in scan.windows():
        if options.is_quarantine:
            if window.damage:
                yield _as_promised(quarantine_batch(window.damage, scan_options), options.schema)
        elif window.rows is not None:
            yield _as_promised(window.rows, options.schema)
    if scan.landed != byte_range.end:
        raise SourceError(
            f"{byte_range.segment.path}: no record begins at {byte_range.end}, where it was cut (a body holds a record that "
            'says it lies there): option("wholeSegments", "true")'
        )


def _as_promised(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    # The same buffers under the schema that Spark was told: it compares the two, nullability and all.
    return pa.RecordBatch.from_arrays(rows.columns, schema=schema)
