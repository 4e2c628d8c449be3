"""Writes the rows of one range as Parquet files into the staging folder: what a task does, in any engine.

    task = WriteTask(scan_options, layout, staging, ...)       pickles
    result = write_range(byte_range, task)                     a RangeResult; as_json() of it is a row

The same range gives the same bytes, whoever writes it and however often. Staged files have names of their own for each attempt, so that
two attempts at once (Spark's retries and speculation) do not meet; the driver moves those of the attempt whose result it took.
In Spark: `createDataFrame(ranges).mapInArrow(...)` with `write_range` in it; the driver commits what comes back.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_exporter.body_schema import TableBodies
from spark_exporter.errors import TargetError
from spark_exporter.layout import Layout, Partition, file_name, name_in_group
from spark_exporter.location import Location, reason_of
from spark_exporter.range_result import RangeResult, WrittenFile
from spark_exporter.range_scan import ByteRange, RangeScan, ScanOptions, quarantine_batch
from spark_exporter.schema import BODY_COLUMN, QUARANTINE

_GROUP_ROWS: Final = 131_072  # limit: rows of a row group
_GROUP_BYTES: Final = 64 << 20  # limit: … or so much memory
_BUFFERED_BYTES: Final = 128 << 20  # limit: of all partitions that are open at once
_SPLIT_BYTES: Final = 16 << 20  # limit: split by topic at a time, since of thousands of topics each has a few rows
_MOST_FILES: Final = 400
"""# limit: open at once, since each keeps what its footer will say; a range with more topics is read again for the others."""
_BATCH_COST: Final = 24 << 10
"""What a batch takes besides its rows, measured: as many objects and buffers as there are columns. With thousands of topics it is more than the rows."""
_FEW_VALUES: Final = ("cluster", "broker_name", "topic", "tags", "born_host", "store_host", "real_topic", "retry_topic")
"""Columns worth a dictionary. Ids and bodies are all different."""
_KEYS_OF_MAP: Final = "properties.key_value.key"
_LARGE: Final = frozenset({"body", "properties", BODY_COLUMN})
_NO_STATISTICS: Final = frozenset({"body", "properties", BODY_COLUMN})


@dataclass(frozen=True, slots=True)
class WriteTask:
    """What workers have to know besides their range. Pickles."""

    options: ScanOptions
    layout: Layout
    staging: Location
    dropped: frozenset[str] = frozenset()
    """Columns that are not in the files because the folder's name says them."""
    compression: str = "zstd"
    compression_level: int = 1
    writer: dict[str, Any] = field(default_factory=dict)
    """More arguments for ParquetWriter."""
    bodies: TableBodies = field(default_factory=TableBodies)
    """What bodies are typed with."""


def write_range(
    byte_range: ByteRange, task: WriteTask, report: Callable[[int], None] = lambda _bytes: None
) -> RangeResult:
    """Write a range's rows and its damage. `report` is told now and then how many bytes of the range are done.

    Raises SourceError, TargetError, DamagedRecords.
    """
    scan = RangeScan(byte_range, task.options)
    files = _RangeFiles(task, file_name(byte_range, task.options.broker_name))
    try:
        unfit, left = _write_rows(scan, task, files, lambda: report(scan.position - byte_range.start))
        while left:
            files.finish()
            choice = replace(task.options.choice, topics=left)
            again = RangeScan(byte_range, replace(task.options, choice=choice))
            more, left = _write_rows(again, task, files, lambda: None)
            unfit += more
        written = files.close()
        quarantine = files.write_quarantine(quarantine_batch(scan.damage, task.options)) if scan.damage else None
    except OSError as error:  # reading raises SourceError: this is a disk that is full, or a store that has gone
        files.abandon()
        raise TargetError(f"{task.staging.uri}: {reason_of(error)}") from None
    except BaseException:
        files.abandon()
        raise
    return RangeResult(
        byte_range.segment.base,
        byte_range.start,
        byte_range.end,
        scan.landed,
        scan.records,
        scan.rows,
        len(scan.damage),
        written,
        quarantine,
        scan.last_store_timestamp,
        scan.last_physical_offset,
        unfit,
    )


def _write_rows(
    scan: RangeScan, task: WriteTask, files: "_RangeFiles", report: Callable[[], None]
) -> tuple[int, frozenset[str]]:
    """All rows for which there are files. How many of them do not fit their schema, and the topics of which there are more rows."""
    unfit = 0
    left: set[str] = set()
    for batch in _in_pieces(scan.batches(), task.layout):
        for partition, rows in task.layout.split(batch):
            if files.has_finished(partition):
                continue
            if not files.has_room(partition):
                left.add(partition.topic or partition.table)
                continue
            bodies = task.bodies.of(partition.table)
            typed, count = (rows, 0) if bodies is None else bodies.type_bodies(rows)
            unfit += count
            files.add(partition, typed)
        report()
    return unfit, frozenset(left)


def _in_pieces(batches: Iterator[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """The batches as they are; where they are to be split by topic, several as one."""
    if not layout.has_many_files:
        yield from batches
        return
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size >= _SPLIT_BYTES:
            yield _as_one(gathered)
            size = 0
    if gathered:
        yield _as_one(gathered)


def _as_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all their rows. The list is empty afterwards, so that they need not be kept any longer."""
    if len(batches) == 1:
        return batches.pop()
    table = pa.Table.from_batches(batches)
    batches.clear()
    (batch,) = table.combine_chunks().to_batches()
    return batch


class _OpenFile:
    """One partition's file while it is written: rows gather until they make a row group. It is opened with the first one, since there may be thousands."""

    def __init__(self, task: WriteTask, partition: Partition, name: str, staged: str) -> None:
        self.partition = partition
        self.name = name
        self.staged = staged
        self._task = task
        fields = [each for each in task.bodies.schema_of(partition.table) if each.name not in task.dropped]
        if task.layout.has_many_files:
            # Arrow's writer keeps the buffers of a file's last column until the next row group: of bodies that is megabytes for each open file.
            fields.sort(key=lambda each: each.name not in _LARGE)
        self._schema = pa.schema(fields)
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._batches: list[pa.RecordBatch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._rows = 0
        self._offsets: list[int] = []
        self._times_ms: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """More rows."""
        # The first and last of what was there before and comes now.
        for seen, name, unit in ((self._offsets, "commit_log_offset", 1), (self._times_ms, "store_timestamp", 1000)):
            least, most = (value.as_py() // unit for value in pc.min_max(batch[name].cast(pa.int64())).values())
            seen[:] = [min([least, *seen]), max([most, *seen])]
        self._batches.append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        if self._gathered_rows >= _GROUP_ROWS or self._gathered_bytes >= _GROUP_BYTES:
            self.flush()

    @property
    def held_bytes(self) -> int:
        """Memory of what has gathered."""
        return self._gathered_bytes + _BATCH_COST * len(self._batches)

    def merge(self) -> None:
        """Make one batch of what has gathered, if that takes much less memory. Large ones stay apart: of each the writer makes a page."""
        if len(self._batches) > 1 and self._gathered_bytes < 4 * _BATCH_COST * len(self._batches):
            self._batches = [_as_one(self._batches)]

    def flush(self) -> None:
        """Make a row group of what has gathered."""
        if self._batches:
            if self._writer is None:
                self._sink = self._task.staging.open_write(self.staged)
                self._writer = open_writer(self._sink, self._schema, self._task)
            table = pa.Table.from_batches(self._batches).select(self._schema.names)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._rows += table.num_rows
            self._batches, self._gathered_rows, self._gathered_bytes = [], 0, 0

    def close(self) -> WrittenFile:
        """Finish the file."""
        self.flush()
        assert self._writer is not None, "a partition has rows"
        assert self._sink is not None
        self._writer.close()
        self._sink.close()
        self._writer = self._sink = None
        self._task.staging.sync(self.staged)
        return WrittenFile(
            self.partition.table,
            self.partition.topic if self.partition.group is None else self.partition.group,
            self.partition.date.isoformat(),
            f"{self.partition.folder}/{name_in_group(self.name, self.partition.group)}",
            self.staged,
            self._rows,
            self._task.staging.size_of(self.staged),
            *self._offsets,
            *self._times_ms,
        )


class _RangeFiles:
    """The files of one range, one for each partition. Topics that may turn out to be small wait in memory until that is known."""

    def __init__(self, task: WriteTask, name: str) -> None:
        self._task = task
        self._name = name
        self._attempt = uuid.uuid4().hex
        self._open: dict[Partition, _OpenFile] = {}
        self._finished: dict[Partition, WrittenFile] = {}
        self._held_bytes = 0
        self._waiting: dict[Partition, list[pa.RecordBatch]] = {}
        self._waiting_bytes: dict[Partition, int] = {}
        self._all_waiting_bytes = 0

    def has_room(self, partition: Partition) -> bool:
        """Whether rows of a partition can be added. What had no room once has none until `finish`."""
        if partition.group is not None or not self._task.layout.has_many_files:
            return True
        return partition in self._open or len(self._open) < _MOST_FILES

    def has_finished(self, partition: Partition) -> bool:
        """Whether all rows of a partition have been written."""
        return partition in self._finished

    def finish(self) -> None:
        """Finish the files that are open: their partitions have no more rows."""
        for partition in list(self._open):
            self._finished[partition] = self._open.pop(partition).close()
        self._held_bytes = 0

    def _begin(self, partition: Partition) -> "_OpenFile":
        staged = f"{self._attempt}/{len(self._finished) + len(self._open)}"
        file = self._open[partition] = _OpenFile(self._task, partition, self._name, staged)
        return file

    def add(self, partition: Partition, rows: pa.RecordBatch) -> None:
        """Rows of one partition."""
        if partition.group is not None and partition not in self._open:
            self._wait(partition, rows)
            return
        file = self._open.get(partition) or self._begin(partition)
        before = file.held_bytes
        file.add(rows)
        self._held_bytes += file.held_bytes - before
        if self._held_bytes >= _BUFFERED_BYTES:
            self._make_room()

    def _make_room(self) -> None:
        """Merge what lies about in small batches; if that is not enough, write the largest, so that there is room for a while."""
        for file in self._open.values():
            file.merge()
        largest = sorted(self._open.values(), key=lambda each: each.held_bytes)
        self._held_bytes = sum(each.held_bytes for each in largest)
        while self._held_bytes >= _BUFFERED_BYTES // 2:
            file = largest.pop()
            self._held_bytes -= file.held_bytes
            file.flush()

    def _wait(self, partition: Partition, rows: pa.RecordBatch) -> None:
        batches = self._waiting.setdefault(partition, [])
        batches.append(rows)
        self._waiting_bytes[partition] = self._waiting_bytes.get(partition, 0) + rows.nbytes
        self._all_waiting_bytes += rows.nbytes + _BATCH_COST
        if self._waiting_bytes[partition] >= self._task.layout.small_topic_bytes:
            self._pour(partition, partition)
        elif self._all_waiting_bytes >= _BUFFERED_BYTES:
            for each in self._waiting.values():
                if len(each) > 1:
                    self._all_waiting_bytes -= _BATCH_COST * (len(each) - 1)
                    each[:] = [_as_one(each)]
            # None is large, but all together are: the largest have files of their own after all.
            order = sorted(sorted(self._waiting, key=_order, reverse=True), key=lambda each: self._waiting_bytes[each])
            while self._all_waiting_bytes >= _BUFFERED_BYTES // 2:
                most = order.pop()
                self._pour(most, most)

    def _pour(self, waiting: Partition, into: Partition) -> None:
        """Put what has waited into a file."""
        batches = self._waiting.pop(waiting)
        self._all_waiting_bytes -= self._waiting_bytes.pop(waiting) + _BATCH_COST * len(batches)
        if into not in self._open:
            self._begin(into)
        for rows in batches:
            self.add(into, rows)

    def close(self) -> tuple[WrittenFile, ...]:
        """Finish all files."""
        for partition in sorted(self._waiting, key=_order):
            self._pour(partition, replace(partition, group=None))
        self.finish()
        return tuple(self._finished[partition] for partition in sorted(self._finished, key=_order))

    def write_quarantine(self, batch: pa.RecordBatch) -> WrittenFile:
        """The damage of the range."""
        staged = f"{self._attempt}/quarantine"
        with (
            self._task.staging.open_write(staged) as sink,
            pq.ParquetWriter(sink, QUARANTINE, compression="zstd") as writer,
        ):
            writer.write_batch(batch)
        self._task.staging.sync(staged)
        offsets = batch["commit_log_offset"]
        return WrittenFile(
            "", None, "1970-01-01", self._name, staged, batch.num_rows, self._task.staging.size_of(staged),
            offsets[0].as_py(), offsets[-1].as_py(), 0, 0,
        )  # fmt: skip

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._task.staging.delete_folder(self._attempt)


def open_writer(sink: pa.NativeFile, schema: pa.Schema, task: WriteTask) -> pq.ParquetWriter:
    """The Parquet writer that all files of messages are made with."""
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


def _order(partition: Partition) -> tuple[str, str, str, str]:
    return partition.table, partition.topic or "", partition.date.isoformat(), partition.group or ""


def _leaves(path: str, type_: pa.DataType) -> list[str]:
    """The Parquet columns of a struct that hold plain values, one a row."""
    if pa.types.is_struct(type_):
        return [leaf for each in type_ for leaf in _leaves(f"{path}.{each.name}", each.type)]
    return [] if pa.types.is_nested(type_) else [path]
