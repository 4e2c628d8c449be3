"""A log as Arrow batches: what DuckDB is handed."""

from pathlib import Path

import duckdb
import pytest

from ipc.instance import Instance
from spark_exporter.errors import ExportError, SourceError
from spark_exporter.reading.schema import MESSAGES
from spark_exporter.running.read_log import ask_flushed_offset, read_log
from support.small_log import SmallLog, write_log


def test_duckdb_counts_rows_of_a_log_without_an_export(tmp_path: Path) -> None:
    log = SmallLog(tmp_path)
    for number in range(300):
        log.append(b"x" * 900, topic=f"T{number % 3}")
    log.write()
    messages = read_log(tmp_path)
    assert messages.schema == MESSAGES
    found = duckdb.sql("select topic, count(*), sum(octet_length(body)) from messages group by 1 order by 1").fetchall()
    assert found == [(f"T{number}", 100, 90_000) for number in range(3)]
    assert [row["topic"] for row in read_log(tmp_path, topics=["T1"], columns=["topic"]).read_all().to_pylist()] == [
        "T1"
    ] * 100
    later = read_log(tmp_path, columns=["commit_log_offset"], start=log.offsets[290] + 1).read_all()
    assert later["commit_log_offset"].to_pylist() == log.offsets[291:]


def test_single_column_equals_the_column_among_all(tmp_path: Path) -> None:
    log = SmallLog(tmp_path)
    for number in range(20):
        properties = f"KEYS\x01k{number}\x02UNIQ_KEY\x01u{number}\x02TAGS\x01t\x02REAL_TOPIC\x01r\x02RETRY_TOPIC\x01y\x02a\x01{number}\x02"
        log.append(
            b"x" * number,
            topic=f"T{number % 3}",
            properties=properties if number % 4 else "",
            born_host=("10.0.0.9", number),
        )
    log.write()
    everything = read_log(tmp_path).read_all()
    assert everything["offset_msg_id"].null_count + everything["body"].null_count == 0
    assert everything["keys"].null_count == everything["retry_topic"].null_count == 5
    for name in MESSAGES.names:
        assert read_log(tmp_path, columns=[name]).read_all() == everything.select([name])
    assert read_log(tmp_path, columns=["topic", "properties"]).read_all() == everything.select(["topic", "properties"])


def test_running_appliance_reports_the_readable_end_of_its_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 10)
    assert ask_flushed_offset(log.root) is None
    instance = Instance.create(log.root)
    try:
        assert ask_flushed_offset(tmp_path) == 0
        assert read_log(tmp_path).read_all().num_rows == 0
    finally:
        instance.unlink()
        instance.close()
    assert read_log(tmp_path).read_all().num_rows == 10


def test_unreadable_source_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such folder"):
        read_log(tmp_path / "nowhere")
    log = write_log(tmp_path / "store", [b"x"])
    with pytest.raises(ExportError, match="no such column: bodies"):
        read_log(log.root, columns=["bodies"])
    empty = SmallLog(tmp_path / "empty")
    empty.write()
    with pytest.raises(SourceError, match="contains no records"):
        read_log(empty.root)
