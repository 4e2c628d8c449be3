"""One Spark session for all tests of a process, started on first use: it takes seconds and half a gigabyte."""

import atexit
import functools

from pyspark.sql import SparkSession

from spark_exporter.running.engines.spark import SparkEngine


@functools.cache
def spark_engine() -> SparkEngine:
    """The engine, on two cores of this machine."""
    engine = SparkEngine("local[2]")
    atexit.register(engine.close)
    return engine


@functools.cache
def spark_session() -> SparkSession:
    """The engine's session, with filters pushed down and few shuffle partitions."""
    session = SparkSession(spark_engine()._open())
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session
