"""The CommitLog as a data source of Spark: `spark.read.format("commitlog").load(PATH)`, and `spark.readStream` alike.

Nothing has to be registered: Spark looks for packages named `pyspark_*` with a `DefaultSource`, which is why this one has its name. It is the
face for queries and streams of one's own; to copy a log into a table, `headrace export` is several times faster, because there no row
passes through the JVM.

    source       what Spark sees: name, schema, readers
    options      what users can say
    batch        a query: partitions, filters that are pushed down, rows
    stream       a stream: offsets, how much a micro-batch takes
    log          what both do: open the store, find the end, cut into ranges
"""

from pyspark_commitlog.source import DefaultSource

__all__ = ["DefaultSource"]
