"""The CommitLog as a Spark data source: `spark.read.format("commitlog").load(PATH)`, and `spark.readStream`.

No registration is needed: Spark looks for packages named `pyspark_*` with a `DefaultSource`, hence the package's name.
Use it for your own queries and streams. To copy a log into a table, `headrace export` is several times faster, because
no row passes through the JVM.

    source       Spark's entry point: name, schema, readers
    options      the user's options
    batch        queries: partitions, filters that are pushed down, rows
    stream       streams: offsets, size of a micro-batch
    log          common to both: open the store, find the end, cut into ranges
"""

from pyspark_commitlog.source import DefaultSource

__all__ = ["DefaultSource"]
