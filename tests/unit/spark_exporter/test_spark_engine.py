"""The Spark engine: what it starts, what it says, what it raises."""

import os
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext

from spark_exporter.errors import DamagedRecords, ExportError, SourceError
from spark_exporter.running.engines import open_engine, spark
from spark_exporter.running.engines.spark import SparkEngine
from spark_exporter.running.export import Export
from support.exported import SMALL_RANGES, read, request, rows_of
from support.small_log import SmallLog, write_log
from support.spark import spark_engine


def test_small_export_starts_no_jvm_unless_spark_is_requested(tmp_path: Path) -> None:
    before = SparkContext._active_spark_context
    log = write_log(tmp_path / "store", [b"x" * 1000] * 100)
    engine = open_engine(None)
    assert isinstance(engine, SparkEngine)
    with Export(request(log.root, tmp_path / "target"), engine) as run:
        assert run.run_once().rows == 100
    assert engine.name == "local"
    engine.close()
    assert SparkContext._active_spark_context is before
    assert [open_engine("spark").name, open_engine(None, "local[2]").name] == ["spark", "spark"]


@pytest.mark.parametrize(
    ("master", "workers", "wanted"),
    [("local", None, 1), ("local[0]", None, 1), ("local[3]", None, 3), (None, 5, 5), ("local[2]", 7, 7)],
)
def test_local_master_sets_the_number_of_workers(
    master: str | None, workers: int | None, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "_find_context", lambda: None)  # another test's, if they share a process
    assert SparkEngine(master, workers).workers == wanted


def test_unreachable_master_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended:
        """A context whose JVM has ended the session, as it does a minute after its master has not answered."""

        @property
        def defaultParallelism(self) -> int:  # noqa: N802  Spark's name
            raise Py4JError("An error occurred")

    engine = SparkEngine("spark://nobody:7077")
    monkeypatch.setattr(engine, "_open", Ended)
    with pytest.raises(ExportError, match=r"^Spark \(spark://nobody:7077\) failed: its session has ended$"):
        engine.workers  # noqa: B018  it is asked for


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_results_arrive_during_the_run_and_progress_is_reported(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 300)
    told: list[tuple[int, int]] = []
    with Export(request(log.root, tmp_path / "target", commit_every_s=0.0), spark_engine()) as run:
        done = run.run_once(lambda *progress: told.append(progress))
    assert (done.rows, done.commits > 1) == (300, True)
    assert told == sorted(told)
    assert told[-1] == (log.end, log.end)
    assert [row["commit_log_offset"] for row in rows_of(read(tmp_path / "target", "parquet"))] == log.offsets


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_error_of_a_worker_is_raised_by_the_driver(tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    for _ in range(300):
        log.append(b"x" * 1000)
    log.write()
    log.overwrite(log.offsets[100] + 100, b"y")
    with (
        Export(request(log.root, tmp_path / "strict", strict=True), spark_engine()) as run,
        pytest.raises(DamagedRecords, match=f"corrupt bytes at physical offset {log.offsets[100]}"),
    ):
        run.run_once()

    class Shortened:
        """Before Spark begins, a segment is cut short."""

        name = "spark"
        workers = 2
        close = staticmethod(lambda: None)
        check_paths = staticmethod(lambda *_: None)

        @staticmethod
        def write(*given: Any) -> Any:
            os.truncate(log.folder / f"{1 << 16:020}", 100)
            return spark_engine().write(*given)

    target = tmp_path / "shortened"
    with Export(request(log.root, target), Shortened()) as run, pytest.raises(SourceError, match="was truncated"):
        run.run_once()
    assert not list(target.glob("dt=*"))
    assert not list(target.glob("_export/staging/*/*/*"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_process_has_one_session_and_does_not_stop_a_foreign_one(tmp_path: Path) -> None:
    context = spark_engine()._open()
    log = write_log(tmp_path / "store", [b"x" * 1000] * 100)
    other = SparkEngine()
    with Export(request(log.root, tmp_path / "target", least_range_bytes=SMALL_RANGES), other) as run:
        assert run.run_once().rows == 100
    other.close()
    assert context.parallelize([1, 2], 1).sum() == 3
    with pytest.raises(ExportError, match=r"already has a Spark session on local\[2,4\], not on spark://elsewhere:1"):
        SparkEngine("spark://elsewhere:1")._open()
