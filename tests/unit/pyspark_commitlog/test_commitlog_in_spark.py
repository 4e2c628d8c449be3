"""`format("commitlog")` in a Spark session: found without registration, queried, streamed."""

from pathlib import Path

import pytest

from support.small_log import STORE_MS, SmallLog
from support.spark import spark_session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    log = SmallLog(tmp_path / "store")
    append(log, 90)
    return log


def append(log: SmallLog, count: int) -> None:
    for number in range(len(log.offsets), len(log.offsets) + count):
        topic = ("Orders", "Bills", "SCHEDULE_TOPIC_XXXX")[number % 3]
        log.append(b"x" * 1000, topic, store_timestamp=STORE_MS + 1000 * number, properties="TAGS\x01a\x02")
    log.write()


def test_sql_filters_are_pushed_down_and_rows_are_right(log: SmallLog) -> None:
    spark = spark_session()
    spark.sql(f"create or replace temporary view messages using commitlog options (path '{log.root}')")
    counted = spark.sql("select topic, count(*), min(tags) from messages group by topic order by topic").collect()
    assert [tuple(row) for row in counted] == [("Bills", 30, "a"), ("Orders", 30, "a")]
    some = (
        spark.table("messages")
        .where(
            f"topic = 'Bills' and store_timestamp >= timestamp_millis({STORE_MS + 30_000}) "
            f"and commit_log_offset < {log.offsets[60]}"
        )
        .select("commit_log_offset")
    )
    assert [row[0] for row in some.collect()] == log.offsets[31:60:3]
    plan = some._jdf.queryExecution().executedPlan().toString()
    assert "commit_log_offset#" in plan
    assert "Bills" not in plan.partition("BatchScan")[0], "the topic filter was not pushed into the scan"


def test_stream_resumes_at_its_checkpoint(log: SmallLog, tmp_path: Path) -> None:
    assert run(log, tmp_path, 40) == log.offsets
    append(log, 15)
    assert run(log, tmp_path, 1000) == log.offsets


def run(log: SmallLog, folder: Path, kib: int) -> list[int]:
    """The sink's contents after a run through all available data."""
    spark = spark_session()
    messages = (
        spark.readStream.format("commitlog")
        .option("includeSystem", "true")
        .option("maxBytesPerTrigger", f"{kib}k")
        .load(str(log.root))
    )
    query = (
        messages.select("commit_log_offset", "topic", "body")
        .writeStream.format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.lastProgress is not None
    assert f'"phy": {log.end}' in query.lastProgress.prettyJson
    return sorted(row[0] for row in spark.read.parquet(str(folder / "sink")).select("commit_log_offset").collect())
