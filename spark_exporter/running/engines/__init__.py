"""Engines carry out a plan: each calls `range_files.write_range` for every range, in a process of its own."""

import importlib.util
from collections.abc import Callable

from spark_exporter.errors import ExportError
from spark_exporter.running.engines.engine import Engine
from spark_exporter.running.engines.java_home import find_java


def open_engine(
    name: str | None,
    master: str | None = None,
    workers: int | None = None,
    warn: Callable[[str], None] = lambda _note: None,
) -> Engine:
    """The engine of that name. Without a name: Spark if there is a master, or if Java and pyspark are installed; otherwise the local engine.

    An engine that was not requested by name does not start a JVM for a small export (see `SparkEngine`). `warn` is called while it waits. Raises ExportError, MissingPackage.
    """
    if name not in {"spark", "local", None}:
        raise ExportError(f"unknown engine {name}: use spark or local")
    if name == "local" and master is not None:
        raise ExportError("the local engine does not support --master")
    if name == "spark" or master is not None or (name is None and _has_spark()):
        from spark_exporter.running.engines.spark import SparkEngine  # noqa: PLC0415  needs its package

        return SparkEngine(master, workers, is_default=name is None and master is None, warn=warn)
    from spark_exporter.running.engines.local import LocalEngine  # noqa: PLC0415

    return LocalEngine(workers)


def _has_spark() -> bool:
    return importlib.util.find_spec("pyspark") is not None and find_java() is not None
