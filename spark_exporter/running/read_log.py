"""Reads a log as a stream of Arrow batches, for DuckDB, Polars, pandas and others, without a target or Spark.

    import duckdb
    from spark_exporter import read_log

    log = read_log("/var/lib/headrace", columns=("topic", "store_size"))
    duckdb.sql("select topic, count(*), sum(store_size) from log group by 1")

The log may be in use. It is read in this process, a few MiB at a time, up to its end at the time of the call.
"""

from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import pyarrow as pa

from spark_exporter.planning.plan import Source, open_source
from spark_exporter.reading.range_scan import RangeScan, ScanOptions
from spark_exporter.reading.record_choice import RecordChoice

_FLUSHED_OFFSET: Final = "headrace.flushed_offset"


def read_log(
    path: str | Path,
    *,
    topics: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    start: int | None = None,
    broker_name: str = "broker",
    cluster: str = "",
    include_system: bool = False,
) -> pa.RecordBatchReader:
    """The rows of a store, in log order; can be read once. `path` as for `plan.open_source`.

    `topics`: only these; `columns`: only these of `schema.MESSAGES`, others are not decoded; `start`: a physical offset, reading begins at the first
    record at or after it. Damaged records are skipped. Raises SourceError, also while reading, and ExportError for an unknown column.
    """
    options = ScanOptions(
        cluster,
        broker_name,
        RecordChoice(None if topics is None else frozenset(topics), include_system),
        None if columns is None else tuple(columns),
    )
    source = open_source(Path(path))
    end = source.find_end(flushed_offset=ask_flushed_offset(Path(path))) if source.segments else 0
    first = source.first_offset if start is None else source.find_record_from(start, end)
    return pa.RecordBatchReader.from_batches(options.schema, _batches(source, first, end, options))


def ask_flushed_offset(path: Path) -> int | None:
    """How far the log of a running appliance is durable; None if no appliance runs there, or if that is unknown.

    The appliance provides the function through the entry point `headrace.flushed_offset`: (path) -> (() -> offset or None).
    """
    for each in entry_points(group=_FLUSHED_OFFSET):
        try:
            known: int | None = each.load()(path)()
        except ImportError:
            continue  # the appliance's packages are not installed
        if known is not None:
            return known
    return None


def _batches(source: Source, start: int, end: int, options: ScanOptions) -> Iterator[pa.RecordBatch]:
    for each in source.plan(start, end, certain=True).ranges:
        yield from RangeScan(each, options).batches()
