"""The readers of `format("commitlog")` without Spark: partitions, filters, stream offsets."""

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan, StringStartsWith
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from pyspark.sql.types import StructType

from ipc.instance import Instance
from pyspark_commitlog.batch import CommitLogReader, FilteringReader
from pyspark_commitlog.log import read_range
from pyspark_commitlog.options import ReadOptions, read_options
from pyspark_commitlog.source import DefaultSource
from pyspark_commitlog.stream import CommitLogStreamReader
from spark_exporter.errors import ExportError, SourceError
from spark_exporter.planning.plan import open_source
from spark_exporter.reading.range_scan import ByteRange
from support.small_log import STORE_MS, SmallLog, write_log

EVERYTHING = ReadAllAvailable()


def options(log: SmallLog, **more: str) -> ReadOptions:
    return read_options({"path": str(log.root), **more})


def offsets(reader: CommitLogReader | CommitLogStreamReader, partitions: list[object]) -> list[int]:
    batches: list[pa.RecordBatch] = [
        batch for each in partitions for batch in pickle.loads(pickle.dumps(reader)).read(each)
    ]
    return [offset for batch in batches for offset in batch["commit_log_offset"].to_pylist()]


def rows(reader: CommitLogReader) -> list[int]:
    return offsets(reader, list(reader.partitions()))


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    log = SmallLog(tmp_path / "store")
    for number in range(200):
        topic = ("Orders", "Bills", "SCHEDULE_TOPIC_XXXX")[number % 3]
        log.append(b"x" * 1000, topic, store_timestamp=STORE_MS + 1000 * number)
    log.write()
    return log


def of_topics(log: SmallLog, *places: int) -> list[int]:
    return [offset for number, offset in enumerate(log.offsets) if number % 3 in places]


def test_options_select_what_is_read(log: SmallLog) -> None:
    assert rows(CommitLogReader(options(log))) == of_topics(log, 0, 1)
    assert rows(CommitLogReader(options(log, includesystem="TRUE"))) == log.offsets
    assert rows(CommitLogReader(options(log, topic="Bills, SCHEDULE_TOPIC_XXXX"))) == of_topics(log, 1, 2)
    begin, end = log.offsets[50], log.offsets[60]
    between = CommitLogReader(options(log, includesystem="true", **{"from": str(begin - 1), "to": str(end)}))
    assert rows(between) == log.offsets[50:60]
    since = datetime.fromtimestamp(STORE_MS / 1000 + 190, UTC).isoformat()
    assert rows(CommitLogReader(options(log, includesystem="true", **{"from": since}))) == log.offsets[190:]
    for scheme in ("file:", "file://"):  # as written by Spark and by browsers
        assert options(log, path=f"{scheme}{log.root}").path == log.root


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"topics": "x"}, "unknown option topics"),
        ({"strict": "yes"}, "strict must be true or false, not yes"),
        ({"from": "monday"}, "from must be a physical offset or a time"),
        ({"from": "0001-01-01T00:00+14:00"}, "from must be a physical offset or a time"),
        ({"workers": "0"}, "workers must be a positive integer"),
        ({"maxbytespertrigger": "1x"}, "maxBytesPerTrigger must be a positive integer"),
        ({"path": ""}, "no path"),
    ],
)
def test_invalid_options_are_refused_in_one_line(said: dict[str, str], wanted: str, log: SmallLog) -> None:
    with pytest.raises(ExportError, match=wanted):
        options(log, **said)


def test_size_may_have_a_unit(log: SmallLog) -> None:
    assert [options(log, maxbytespertrigger=text).max_bytes for text in ("7", "7k", "7M", "7g")] == [
        7, 7 << 10, 7 << 20, 7 << 30,
    ]  # fmt: skip


def test_topic_filters_are_applied_fully_and_others_narrow_the_ranges(log: SmallLog) -> None:
    def push(*filters: Filter) -> tuple[list[Filter], list[int], int]:
        reader = FilteringReader(options(log))
        left = list(reader.pushFilters(list(filters)))
        return left, rows(reader), len(reader.partitions())

    everything = len(CommitLogReader(options(log)).partitions())
    assert everything == 4
    assert push(EqualTo(("topic",), "Bills")) == ([], of_topics(log, 1), everything)
    assert push(In(("topic",), ("Bills", "Orders")), EqualTo(("topic",), "Orders"))[:2] == ([], of_topics(log, 0))
    # As without filters, system topics are not returned even if requested.
    assert push(EqualTo(("topic",), "SCHEDULE_TOPIC_XXXX")) == ([], [], 0)
    other = StringStartsWith(("tags",), "a")
    assert push(other) == ([other], of_topics(log, 0, 1), everything)

    at = GreaterThanOrEqual(("commit_log_offset",), log.offsets[150])
    left, found, count = push(at)
    assert left == [at]
    assert found[-1] == of_topics(log, 0, 1)[-1]
    assert count < everything

    since = GreaterThanOrEqual(("store_timestamp",), datetime.fromtimestamp(STORE_MS / 1000 + 10, UTC))
    before = LessThan(("store_timestamp",), datetime.fromtimestamp(STORE_MS / 1000 + 20, UTC))
    left, found, _ = push(since, before)
    assert left == [since, before]
    wanted = [offset for offset in log.offsets[10:20] if offset in of_topics(log, 0, 1)]
    assert [offset for offset in found if offset != log.offsets[20]] == wanted


def test_columns_come_from_the_schema_or_the_option(log: SmallLog) -> None:
    source = DefaultSource({"path": str(log.root), "columns": "topic,tags"})
    assert source.schema().simpleString() == "struct<topic:string,tags:string>"
    reader = source.reader(source.schema())
    (batch, *_) = reader.read(reader.partitions()[0])
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema.names == ["topic", "tags"]
    with pytest.raises(ExportError, match="no such column: subject"):
        source.reader(StructType().add("subject", "string"))
    with pytest.raises(ExportError, match="the schema declares queue_id as string"):
        source.reader(StructType().add("queue_id", "string"))
    with pytest.raises(ExportError, match="tags may be null; remove NOT NULL"):
        source.reader(StructType().add("tags", "string", nullable=False))


def test_only_nullable_columns_are_declared_nullable(log: SmallLog) -> None:
    log.append(b"no clock", born_timestamp=1 << 62)
    log.write()
    source = DefaultSource({"path": str(log.root)})
    rows = pa.Table.from_batches(
        [
            batch
            for each in source.reader(source.schema()).partitions()
            for batch in source.reader(source.schema()).read(each)
            if isinstance(batch, pa.RecordBatch)
        ]
    )
    nulls = {name for name in rows.column_names if rows[name].null_count}
    may_be = {field.name for field in source.schema() if field.nullable}
    assert nulls == may_be == {"msg_id", "keys", "tags", "born_timestamp", "real_topic", "retry_topic"}
    # Spark compares a batch's schema with the requested one, which may lack NOT NULL.
    loose = source.reader(StructType().add("topic", "string").add("tags", "string"))
    (batch, *_) = loose.read(loose.partitions()[0])
    assert isinstance(batch, pa.RecordBatch)
    assert [field.nullable for field in batch.schema] == [True, True]


def test_damage_is_skipped_returned_as_rows_or_refused(log: SmallLog) -> None:
    log.overwrite(log.offsets[4] + 100, b"y")
    assert rows(CommitLogReader(options(log))) == [at for at in of_topics(log, 0, 1) if at != log.offsets[4]]
    assert rows(CommitLogReader(options(log, quarantine="true"))) == [log.offsets[4]]
    with pytest.raises(ExportError, match=f"corrupt bytes at physical offset {log.offsets[4]}"):
        rows(CommitLogReader(options(log, strict="true")))


def test_range_that_ends_within_a_record_fails_the_query(log: SmallLog) -> None:
    given = options(log)
    (segment, *_) = open_source(log.root).segments
    cut = ByteRange(segment, 0, log.offsets[10] + 50, segment.end)
    with pytest.raises(SourceError, match=f"no record begins at {log.offsets[10] + 50}, where the log was split"):
        list(read_range(cut, given, given.scan))


def test_micro_batch_ends_at_the_limit_or_the_end_of_the_log(log: SmallLog) -> None:
    reader = CommitLogStreamReader(options(log, includesystem="true", maxbytespertrigger="50k"))
    at, seen, steps = reader.initialOffset(), [], 0
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxBytes(50 << 10)
    while (end := reader.latestOffset(at, limit)) != at:
        assert 50 << 10 <= end["phy"] - at["phy"] < 53 << 10 or end["phy"] == log.end
        partitions = reader.partitions(at, end)
        seen += offsets(reader, list(partitions))
        at, steps = end, steps + 1
    assert (seen, steps) == (log.offsets, -(-log.end // (51 << 10)))
    assert reader.partitions(at, at) == []
    # At least one record, however small the limit.
    assert reader.latestOffset({"phy": 0}, ReadMaxBytes(1)) == {"phy": log.offsets[1]}


def test_available_now_excludes_later_records(log: SmallLog) -> None:
    reader = CommitLogStreamReader(options(log))
    reader.prepareForTriggerAvailableNow()
    end = log.end
    log.append(b"later")
    log.write()
    assert reader.latestOffset({"phy": 0}, EVERYTHING) == {"phy": end}
    assert CommitLogStreamReader(options(log)).latestOffset({"phy": end}, EVERYTHING) == {"phy": log.end}


def test_stream_of_a_running_appliance_ends_at_the_flushed_offset(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 20)
    instance = Instance.create(log.root)
    try:
        assert CommitLogStreamReader(options(log)).latestOffset({"phy": 0}, EVERYTHING) == {"phy": 0}
        assert rows(CommitLogReader(options(log))) == []
    finally:
        instance.unlink()
        instance.close()
    assert CommitLogStreamReader(options(log)).latestOffset({"phy": 0}, EVERYTHING) == {"phy": log.end}


def test_stream_fails_when_its_next_files_have_been_deleted(log: SmallLog) -> None:
    (log.folder / f"{0:020}").unlink()
    with pytest.raises(
        SourceError, match=f"begins at offset {1 << 16}; the records from offset 0 up to there have been deleted"
    ):
        CommitLogStreamReader(options(log)).latestOffset({"phy": 0}, EVERYTHING)
    reader = CommitLogStreamReader(options(log, includesystem="true", failondataloss="false"))
    end = reader.latestOffset({"phy": 0}, EVERYTHING)
    assert offsets(reader, list(reader.partitions({"phy": 0}, end))) == [at for at in log.offsets if at >= 1 << 16]
    with pytest.raises(ExportError, match="streams do not support"):
        CommitLogStreamReader(options(log, to="5"))
