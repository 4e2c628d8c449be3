"""Writes the rows of one range as Parquet files to the staging folder: the task of a worker, in any engine.

    task = WriteTask(scan_options, layout, staging, ...)       can be pickled
    result = write_range(byte_range, task)                     a RangeResult; as_json() of it is a row

Every attempt to write a range produces the same bytes. Each attempt has its own names in staging, so that concurrent attempts
(Spark's retries and speculation) do not conflict; the driver moves the files of the attempt whose result it received.
In Spark: `createDataFrame(ranges).mapInArrow(...)` calls `write_range`, and the driver commits the results.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_exporter.errors import TargetError
from spark_exporter.reading.range_scan import ByteRange, Damage, RangeScan, ScanOptions, quarantine_batch
from spark_exporter.reading.schema import BODY_COLUMN, QUARANTINE
from spark_exporter.storage.location import Location, reason_of
from spark_exporter.writing.body_schema import TableBodies
from spark_exporter.writing.layout import Layout, Partition, file_name, name_in_group
from spark_exporter.writing.range_result import RangeResult, WrittenFile
from spark_exporter.writing.topic_scan import TopicScan

_GROUP_ROWS: Final = 131_072  # limit: rows per row group
_GROUP_BYTES: Final = 64 << 20  # limit: … or so much memory
_QUARANTINE_BYTES: Final = 16 << 20  # limit: bytes of damaged data in memory
_FEW_VALUES: Final = ("cluster", "broker_name", "topic", "tags", "born_host", "store_host", "real_topic", "retry_topic")
"""Columns with a dictionary; ids and bodies are all different."""
_KEYS_OF_MAP: Final = "properties.key_value.key"
_NO_STATISTICS: Final = frozenset({"body", "properties", BODY_COLUMN})


@dataclass(frozen=True, slots=True)
class WriteTask:
    """What workers need besides their range. Can be pickled."""

    options: ScanOptions
    layout: Layout
    staging: Location
    dropped: frozenset[str] = frozenset()
    """Columns that are in the folder's name and so not in the files."""
    compression: str = "zstd"
    compression_level: int = 1
    writer: dict[str, Any] = field(default_factory=dict)
    """Further arguments for ParquetWriter."""
    bodies: TableBodies = field(default_factory=TableBodies)
    """The schemas of typed bodies."""


def write_range(
    byte_range: ByteRange, task: WriteTask, report: Callable[[int], None] = lambda _bytes: None
) -> RangeResult:
    """Write a range's rows and its damaged parts. `report` is called from time to time with the number of bytes done.

    Raises SourceError, TargetError, DamagedRecords.
    """
    options, layout = task.options, task.layout
    scan = TopicScan(byte_range, options, layout) if layout.has_many_files else RangeScan(byte_range, options)
    files = _RangeFiles(task, file_name(byte_range, options.broker_name))
    unfit = 0
    try:
        for partition, rows in _parts(scan, layout, files.quarantine):
            bodies = task.bodies.of(partition.table)
            typed, count = (rows, 0) if bodies is None else bodies.type_bodies(rows)
            unfit += count
            files.add(partition, typed)
            report(scan.done_bytes)
        written, quarantine = files.close()
    except OSError as error:  # reading raises SourceError, so this is a full disk or an unavailable target
        files.abandon()
        raise TargetError(f"{task.staging.uri}: {reason_of(error)}") from None
    except BaseException:
        files.abandon()
        raise
    walk = scan.first if isinstance(scan, TopicScan) else scan
    return RangeResult(
        byte_range.segment.base,
        byte_range.start,
        byte_range.end,
        walk.landed,
        walk.records,
        scan.rows,
        scan.damaged,
        written,
        quarantine,
        walk.last_store_timestamp,
        walk.last_physical_offset,
        unfit,
    )


def _parts(
    scan: RangeScan | TopicScan, layout: Layout, quarantine: Callable[[Sequence[Damage]], None]
) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """Yields the rows by partition. Damaged parts go to `quarantine`."""
    if isinstance(scan, TopicScan):
        for partition, window in scan.windows():
            quarantine(window.damage)
            if partition is not None and window.rows is not None:
                yield partition, window.rows
    else:
        for window in scan.windows():
            quarantine(window.damage)
            if window.rows is not None:
                yield from layout.split(window.rows)


class _OpenFile:
    """A partition's file while it is written: collects rows until they fill a row group."""

    def __init__(self, task: WriteTask, partition: Partition, name: str, staged: str) -> None:
        self.partition = partition
        self._name = f"{partition.folder}/{name_in_group(name, partition.group)}"
        self._staged = staged
        self._staging = task.staging
        self._schema = pa.schema(
            [each for each in task.bodies.schema_of(partition.table) if each.name not in task.dropped]
        )
        self._sink = task.staging.open_write(staged)
        self._writer = open_writer(self._sink, self._schema, task)
        self._batches: list[pa.RecordBatch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._rows = 0
        self._offsets: list[int] = []
        self._times_ms: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        # The first and last of the old and the new rows.
        for seen, name, unit in ((self._offsets, "commit_log_offset", 1), (self._times_ms, "store_timestamp", 1000)):
            least, most = (value.as_py() // unit for value in pc.min_max(batch[name].cast(pa.int64())).values())
            seen[:] = [min([least, *seen]), max([most, *seen])]
        self._batches.append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        if self._gathered_rows >= _GROUP_ROWS or self._gathered_bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the collected rows as a row group."""
        if self._batches:
            table = pa.Table.from_batches(self._batches).select(self._schema.names)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._rows += table.num_rows
            self._batches, self._gathered_rows, self._gathered_bytes = [], 0, 0

    def close(self) -> WrittenFile:
        """Finish the file."""
        self.flush()
        self._writer.close()
        self._sink.close()
        self._staging.sync(self._staged)
        partition = self.partition
        return WrittenFile(
            partition.table,
            partition.topic if partition.group is None else partition.group,
            partition.date.isoformat(),
            self._name,
            self._staged,
            self._rows,
            self._staging.size_of(self._staged),
            *self._offsets,
            *self._times_ms,
        )


class _RangeFiles:
    """The files of a range: one per partition, and one for its damaged parts. Rows are collected for one of them at a time.

    If each partition appears once (`TopicScan`), one file is open at a time. In log order, days may appear again after a clock was set back: their
    files stay open, and are few.
    """

    def __init__(self, task: WriteTask, name: str) -> None:
        self._task = task
        self._name = name
        self._attempt = uuid.uuid4().hex
        self._open: dict[Partition, _OpenFile] = {}
        self._current: _OpenFile | None = None
        self._written: list[WrittenFile] = []
        self._quarantine: _QuarantineFile | None = None

    def add(self, partition: Partition, rows: pa.RecordBatch) -> None:
        """Add rows of one partition."""
        if self._current is None or self._current.partition != partition:
            self._leave()
            self._current = self._open.get(partition)
            if self._current is None:
                staged = f"{self._attempt}/{len(self._written) + len(self._open)}"
                self._current = self._open[partition] = _OpenFile(self._task, partition, self._name, staged)
        self._current.add(rows)

    def _leave(self) -> None:
        if self._task.layout.has_many_files:
            self._finish()
        elif self._current is not None:
            self._current.flush()

    def _finish(self) -> None:
        for partition in list(self._open):
            self._written.append(self._open.pop(partition).close())

    def quarantine(self, damage: Sequence[Damage]) -> None:
        """Add damaged parts of the range."""
        if damage:
            if self._quarantine is None:
                self._quarantine = _QuarantineFile(self._task, f"{self._attempt}/quarantine")
            self._quarantine.add(damage)

    def close(self) -> tuple[tuple[WrittenFile, ...], WrittenFile | None]:
        """Finish all files, including the one of damaged parts if there are any."""
        self._finish()
        written = tuple(sorted(self._written, key=lambda each: (each.table, each.name)))
        return written, None if self._quarantine is None else self._quarantine.close(self._name)

    def abandon(self) -> None:
        """Delete all files after a failure."""
        self._task.staging.delete_folder(self._attempt)


class _QuarantineFile:
    """The file of a range's damaged parts while it is written; collected like rows, because a whole segment may be damaged."""

    def __init__(self, task: WriteTask, staged: str) -> None:
        self._task = task
        self._staged = staged
        self._sink = task.staging.open_write(staged)
        self._writer = pq.ParquetWriter(self._sink, QUARANTINE, compression="zstd")
        self._gathered: list[Damage] = []
        self._gathered_bytes = 0
        self._rows = 0
        self._offsets: list[int] = []

    def add(self, damage: Sequence[Damage]) -> None:
        """Add damaged parts."""
        places = [each.physical_offset for each in damage]
        self._offsets = [min([*self._offsets, *places]), max([*self._offsets, *places])]
        self._gathered += damage
        self._gathered_bytes += sum(len(each.raw) for each in damage)
        if self._gathered_bytes >= _QUARANTINE_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._gathered:
            self._writer.write_batch(quarantine_batch(self._gathered, self._task.options))
            self._rows += len(self._gathered)
            self._gathered, self._gathered_bytes = [], 0

    def close(self, name: str) -> WrittenFile:
        """Finish the file, under this name."""
        self._flush()
        self._writer.close()
        self._sink.close()
        staging = self._task.staging
        staging.sync(self._staged)
        first, last = self._offsets
        size_bytes = staging.size_of(self._staged)
        return WrittenFile("", None, "1970-01-01", name, self._staged, self._rows, size_bytes, first, last, 0, 0)


def open_writer(sink: pa.NativeFile, schema: pa.Schema, task: WriteTask) -> pq.ParquetWriter:
    """The Parquet writer of all files of messages."""
    typed = _leaves(BODY_COLUMN, schema.field(BODY_COLUMN).type) if BODY_COLUMN in schema.names else []
    return pq.ParquetWriter(
        sink,
        schema,
        compression=task.compression,
        compression_level=task.compression_level if task.compression in {"zstd", "gzip", "brotli"} else None,
        use_dictionary=[*(name for name in _FEW_VALUES if name in schema.names), _KEYS_OF_MAP, *typed],
        write_statistics=[*(name for name in schema.names if name not in _NO_STATISTICS), *typed],
        **task.writer,
    )


def _leaves(path: str, type_: pa.DataType) -> list[str]:
    """The Parquet columns of a struct with plain values, one per row."""
    if pa.types.is_struct(type_):
        return [leaf for each in type_ for leaf in _leaves(f"{path}.{each.name}", each.type)]
    return [] if pa.types.is_nested(type_) else [path]
