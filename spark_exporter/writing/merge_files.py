"""Merges small Parquet files of one partition, in the order of the log, a row group at a time."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_exporter.reading.range_scan import ScanOptions
from spark_exporter.storage.location import Location, telling
from spark_exporter.writing.layout import Layout
from spark_exporter.writing.range_files import WriteTask, open_writer
from spark_exporter.writing.range_result import WrittenFile

SMALL_BYTES: Final = 128 << 20
"""# limit: files below this size are merged."""

_GROUP_ROWS: Final = 131_072


def merge_files(
    folder: Location, files: Sequence[tuple[WrittenFile, str]], staging: Location, schema: pa.Schema
) -> list[WrittenFile]:
    """Merge files of one partition (each with its name in `folder`), of these columns, into one in `staging`. Its `name` has no folder yet.

    Broker by broker, so that the rows of each keep their log order.
    """
    ordered = sorted(files, key=lambda each: (each[0].name.rpartition("/")[2].rsplit("-", 3)[0], each[0].first_offset))
    first, last = ordered[0][0], ordered[-1][0]
    staged = f"merged-{first.first_offset:020}-{last.last_offset:020}"
    task = WriteTask(ScanOptions(), Layout(), staging)
    with telling(folder.uri), staging.open_write(staged) as sink, open_writer(sink, schema, task) as writer:
        gathered: list[pa.RecordBatch] = []
        rows = 0
        for _, name in ordered:
            with pq.ParquetFile(folder.open_read(name)) as opened:
                for batch in opened.iter_batches(batch_size=_GROUP_ROWS // 4):
                    gathered.append(batch.select(schema.names))
                    rows += batch.num_rows
                    if rows >= _GROUP_ROWS:
                        writer.write_table(pa.Table.from_batches(gathered).cast(schema), row_group_size=rows)
                        gathered, rows = [], 0
        if gathered:
            writer.write_table(pa.Table.from_batches(gathered).cast(schema), row_group_size=rows)
    staging.sync(staged)
    return [
        WrittenFile(
            first.table,
            first.topic,
            first.date,
            f"compact-{first.first_offset:020}-{last.last_offset:020}.parquet",
            staged,
            sum(file.rows for file, _ in ordered),
            staging.size_of(staged),
            min(file.first_offset for file, _ in ordered),
            max(file.last_offset for file, _ in ordered),
            min(file.first_store_ms for file, _ in ordered),
            max(file.last_store_ms for file, _ in ordered),
        )
    ]
