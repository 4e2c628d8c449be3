"""What carries a plan out: each engine calls `range_files.write_range` for every range, somewhere."""

from spark_exporter.engines.engine import Engine
from spark_exporter.errors import ExportError


def open_engine(name: str | None, master: str | None = None, workers: int | None = None) -> Engine:
    """The engine of that name. Without one it is Spark where there is a master, or Java and the package; else the local one.

    Raises ExportError, MissingPackage.
    """
    if name == "local" or (name is None and master is None and not _has_spark()):
        if master is not None:
            raise ExportError("the local engine has no master")
        from spark_exporter.engines.local import LocalEngine  # noqa: PLC0415

        return LocalEngine(workers)
    raise ExportError("the Spark engine is not part of this build: --engine local")


def _has_spark() -> bool:
    return False
