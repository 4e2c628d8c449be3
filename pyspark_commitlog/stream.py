"""A stream of a growing log. Its offset is `{"phy": N}`: all records before that physical offset have been read.

Spark stores the offsets of each micro-batch in the checkpoint before reading it. A micro-batch that is read again has
the same rows: the same ranges of the log, which does not change below its flushed end.
"""

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from pyspark_commitlog import log
from pyspark_commitlog.options import ReadOptions
from spark_exporter.errors import ExportError, SourceError
from spark_exporter.planning.plan import Source, open_source


class CommitLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reports the end of the log and reads between two offsets."""

    def __init__(self, options: ReadOptions) -> None:
        if options.end is not None:
            raise ExportError('commitlog: streams do not support the option "to"; remove it, or use a batch query')
        self._options = options
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name, as those below
        """Where a new stream begins: at the option `from`, or at the beginning of the log."""
        source = open_source(self._options.path)
        if not source.segments:
            return {"phy": 0}
        if self._options.start is None:
            return {"phy": source.first_offset}
        end = log.find_end(source, self._options.path)
        return {"phy": log.find_place(source, self._options.start, end)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The option `maxBytesPerTrigger`."""
        most = self._options.max_bytes
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fixes the end of the log: later records are not part of this run."""
        source = open_source(self._options.path)
        self._target = log.find_end(source, self._options.path) if source.segments else 0

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The end of the next micro-batch: the flushed end or the limit, but at least one record further."""
        source = open_source(self._options.path)
        begin = start["phy"]
        if self._options.fail_on_data_loss:
            _check_whole(source, begin)
        end = self._find_end(source, begin)
        if isinstance(limit, ReadMaxBytes) and end - begin > limit.max_bytes:
            end = log.find_boundary(source, begin, begin + limit.max_bytes, end)
        return {"phy": max(begin, end)}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        """Nothing: finding the end of the log again only for a report is too expensive."""
        return None

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One partition per range between two offsets."""
        if start["phy"] >= end["phy"]:
            return []
        source = open_source(self._options.path)
        return [InputPartition(each) for each in log.cut(source, start["phy"], end["phy"], self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        if partition.value is not None:
            yield from log.read_range(partition.value, self._options, self._options.scan)

    def _find_end(self, source: Source, begin: int) -> int:
        if self._target is not None:
            return self._target
        return log.find_end(source, self._options.path, begin)


def _check_whole(source: Source, begin: int) -> None:
    """Raises SourceError if files to be read are missing."""
    said = 'use option("failOnDataLoss", "false") to skip missing records'
    if source.segments and begin < source.first_offset:
        raise SourceError(
            f"{source.commit_log} begins at offset {source.first_offset}; the records from offset {begin} up to there have been deleted; {said}"
        )
    for before, after in pairwise(source.segments):
        if before.end != after.base and after.base > begin:
            raise SourceError(f"{source.commit_log}: the files from {before.end} to {after.base} are missing: {said}")
