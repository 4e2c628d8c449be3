"""Creates the sink of a table format, and imports its package only then."""

from spark_exporter.errors import ExportError, TargetError
from spark_exporter.targets.sink import Sink

FORMATS = ("parquet", "iceberg", "delta")


def open_sink(table_format: str, target: str) -> Sink:
    """The sink of a format at a target. Raises MissingPackage, TargetError."""
    if "#" in target and table_format != "iceberg":
        raise TargetError(f"{target}: a # denotes an Iceberg table in a catalog; use --format iceberg")
    if table_format == "parquet":
        from spark_exporter.targets.parquet import ParquetSink  # noqa: PLC0415

        return ParquetSink(target)
    if table_format == "delta":
        from spark_exporter.targets.delta import DeltaSink  # noqa: PLC0415

        return DeltaSink(target)
    if table_format == "iceberg":
        from spark_exporter.targets.iceberg import IcebergSink  # noqa: PLC0415

        return IcebergSink(target)
    raise ExportError(f"unknown format {table_format}: use one of {', '.join(FORMATS)}")
