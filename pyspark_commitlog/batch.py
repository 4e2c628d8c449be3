"""A query over a log as of the time when the query is planned."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from pyspark_commitlog import log
from pyspark_commitlog.options import ReadOptions
from spark_exporter.planning.plan import open_source
from spark_exporter.reading.range_scan import ByteRange

_EQUAL = (EqualTo, EqualNullSafe)
_AT_LEAST = (GreaterThan, GreaterThanOrEqual, *_EQUAL)
_AT_MOST = (LessThan, LessThanOrEqual, *_EQUAL)


class CommitLogReader(DataSourceReader):
    """Plans and reads a query. Spark pickles it to the workers."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._scan = options.scan
        # The bounds of the requested records: ranges outside are not read.
        self._first_offset: int | None = None
        self._last_offset: int | None = None

    def partitions(self) -> list[InputPartition]:
        """One partition per range."""
        options = self._options
        if self._scan.choice.topics == frozenset():
            return []
        source = open_source(options.path)
        if not source.segments:
            return []
        end = log.find_end(source, options.path)
        start = source.first_offset if options.start is None else log.find_place(source, options.start, end)
        if options.end is not None:
            end = max(start, log.find_place(source, options.end, end))
        return [InputPartition(each) for each in log.cut(source, start, end, options) if self._has_asked(each)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range, as Arrow batches from the decoder."""
        if partition.value is not None:  # Spark creates such a partition when there are none
            yield from log.read_range(partition.value, self._options, self._scan)

    def _has_asked(self, byte_range: ByteRange) -> bool:
        return (self._first_offset is None or byte_range.end > self._first_offset) and (
            self._last_offset is None or byte_range.start <= self._last_offset
        )


class FilteringReader(CommitLogReader):
    """Lets Spark push filters down: records of other topics and times are not decoded, other ranges not read."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Applies topic filters completely. Time and offset filters are used, and evaluated again by Spark."""
        for each in filters:
            if not self._push(each):
                yield each

    def _push(self, given: Filter) -> bool:
        """Whether Spark need not evaluate the filter again."""
        column = getattr(given, "attribute", None)
        value: Any = getattr(given, "value", None)
        if column == ("topic",):
            if isinstance(given, _EQUAL) and isinstance(value, str):
                return self._push_topics([value])
            if isinstance(given, In):
                return self._push_topics(given.value)
        elif column == ("commit_log_offset",) and isinstance(value, int):
            self._push_offset(given, value)
        elif column == ("store_timestamp",) and isinstance(value, datetime) and value.tzinfo is not None:
            self._push_time(given, int(value.timestamp() * 1000))
        return False

    def _push_topics(self, topics: Sequence[Any]) -> bool:
        choice = self._scan.choice
        # A filter only narrows the choice: system topics do not appear because a filter names them.
        wanted = frozenset(name for name in topics if isinstance(name, str) and choice.is_wanted(name))
        self._scan = replace(self._scan, choice=replace(choice, topics=wanted))
        return True

    def _push_offset(self, given: Filter, value: int) -> None:
        if isinstance(given, _AT_LEAST):
            self._first_offset = max(value, self._first_offset or 0)
        if isinstance(given, _AT_MOST):
            self._last_offset = value if self._last_offset is None else min(value, self._last_offset)

    def _push_time(self, given: Filter, value_ms: int) -> None:
        choice = self._scan.choice
        if isinstance(given, _AT_LEAST):
            choice = replace(choice, first_ms=max(choice.first_ms, value_ms))
        if isinstance(given, _AT_MOST):
            choice = replace(choice, end_ms=min(choice.end_ms, value_ms + 1))
        self._scan = replace(self._scan, choice=choice)
