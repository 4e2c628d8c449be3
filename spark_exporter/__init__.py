"""The exporter: CommitLog files into Parquet, Iceberg and Delta tables, exactly once, without a broker.

It reads the store's files as files, of ours or of Apache RocketMQ 4.x and 5.x, and never writes to them. Nothing here needs the appliance:
it may run on any machine that sees the files. Needs the extra `[export]` (pyarrow).

    storage     files in folders and object stores
    reading     records of the log as Arrow batches
    planning    a store as ranges of its log
    writing     rows as Parquet files
    targets     Parquet folders, Iceberg and Delta tables, and their ledger
    running     whole jobs: export, verify, compact, status

Programs import `read_log` from here; everything else may change.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_exporter.running.read_log import read_log

__all__ = ["read_log"]


def __getattr__(name: str) -> object:
    # Importing pyarrow takes half a second; processes that only use a submodule must not pay for it.
    if name == "read_log":
        from spark_exporter.running.read_log import read_log  # noqa: PLC0415

        return read_log
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
