"""The entry point for Spark."""

import sys
from dataclasses import replace
from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_commitlog.batch import CommitLogReader, FilteringReader
from pyspark_commitlog.options import ReadOptions, read_options
from pyspark_commitlog.stream import CommitLogStreamReader
from spark_exporter.errors import ExportError
from spark_exporter.reading.schema import chosen, without_nulls

_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class DefaultSource(DataSource):
    """`format("commitlog")`."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)` and after `using`."""
        return "commitlog"

    def schema(self) -> StructType:
        """The columns of messages, or those of the option `columns`; NOT NULL where possible, to save checks."""
        return from_arrow_schema(read_options(self.options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        options = _with_columns(read_options(self.options), schema)
        return FilteringReader(options) if _are_filters_pushed() else CommitLogReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """For `spark.readStream`."""
        return CommitLogStreamReader(_with_columns(read_options(self.options), schema))


def _with_columns(options: ReadOptions, schema: StructType) -> ReadOptions:
    """Restricts the options to the columns requested by Spark: those of `schema()` unless the user gave a schema."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    if not options.is_quarantine:
        options = replace(options, scan=replace(options.scan, columns=tuple(wanted.names)))
    ours = options.schema if options.is_quarantine else without_nulls(chosen(wanted.names))
    if wanted.names != ours.names:
        raise ExportError(f"commitlog: the columns of the quarantine table are fixed: {', '.join(ours.names)}")
    for field in wanted:
        if ours.field(field.name).type != field.type:
            raise ExportError(
                f"commitlog: the schema declares {field.name} as {field.type}, but its type is {ours.field(field.name).type}; "
                "correct the schema, or omit it"
            )
        if ours.field(field.name).nullable and not field.nullable:
            raise ExportError(f"commitlog: {field.name} may be null; remove NOT NULL from the schema")
    return replace(options, schema=wanted)


def _are_filters_pushed() -> bool:
    # Spark refuses a reader with filters unless spark.sql.python.filterPushdown.enabled is true. A reader cannot query
    # that setting, but only if it is set does this process run as the worker that pushes filters.
    return _PUSHDOWN_WORKER in sys.modules or getattr(sys.modules["__main__"].__spec__, "name", "") == _PUSHDOWN_WORKER
