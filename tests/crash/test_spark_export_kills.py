"""Exports with Spark whose driver, executors or Python workers are killed, on this machine and on a cluster of two workers.

Spark does again what its parts had begun, and what a driver had begun the next run does, whatever engine that has: each row is there once.
`make test` kills one of each, the full form (HEADRACE_CRASH_ROUNDS=full) many at random instants.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from spark_exporter.export import Export
from spark_exporter.open_target import open_target
from spark_exporter.plan import open_source
from spark_exporter.verify import verify
from support import golden
from support.crash import rounds
from support.exported import FORMATS, expected_rows, export, read, request, rows_of
from support.killed_spark_export import RANGES, SMALL_RANGES
from support.servers import wait_until
from support.spark import spark_engine
from support.spark_cluster import WORKERS, SparkCluster

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "killed_spark_export.py"
HEADRACE = Path(sys.executable).with_name("headrace")

pytestmark = pytest.mark.timeout(600 * rounds(1, 10))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark-cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.unpack("unclean", tmp_path_factory.mktemp("source"))


def start(
    source: Path, target: Path, table_format: str, master: str, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(source), str(target), table_format, master],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
    )


def check_complete(source: Path, target: Path, table_format: str) -> None:
    """What readers see is each row once; the target's own account agrees; nothing lies about."""
    opened = open_target(str(target))
    assert verify(open_source(source), opened, "broker").differences == ()
    assert rows_of(read(target, table_format)) == expected_rows("unclean")
    left = [name for name in opened.sink.work.list("_export", below=True) if "staging" in name or "pending" in name]
    assert left == []
    assert not (source / "hold").exists()


def has_committed(target: Path, commits: int = 1) -> bool:
    return len(list(target.glob("_export/manifests/*.json"))) >= commits


def await_commits(driver: subprocess.Popen[bytes], target: Path, commits: int) -> None:
    wait_until(lambda: has_committed(target, commits) or driver.poll() is not None, 300, "commits")


@pytest.mark.parametrize("table_format", FORMATS[: rounds(1, 3)])
def test_a_killed_driver_is_followed_by_a_run_of_another_engine(
    table_format: str, source: Path, tmp_path: Path, chance: random.Random
) -> None:
    for number in range(rounds(1, 10)):
        target = tmp_path / f"target-{number}"
        driver = start(source, target, table_format, "local[2]", dict(os.environ))
        if table_format == "iceberg":
            wait_until(lambda target=target: (target / "catalog.db").exists(), 300, "the catalog")  # type: ignore[misc]
            time.sleep(chance.uniform(0, 10))
        else:
            await_commits(driver, target, chance.randint(1, 20))
        with_it = psutil.Process(driver.pid).children(recursive=True)
        driver.kill()
        assert driver.wait(60) == -signal.SIGKILL
        # The JVM and its workers end by themselves.
        _, alive = psutil.wait_procs(with_it, 120)
        assert alive == []
        export(source, target, table_format)
        check_complete(source, target, table_format)


def test_a_killed_python_worker_is_replaced_and_its_range_written_again(
    source: Path, tmp_path: Path, chance: random.Random
) -> None:
    engine = spark_engine()
    for number in range(rounds(1, 10)):
        target = tmp_path / f"target-{number}"
        killed: list[int] = []
        over = threading.Event()

        def kill(target: Path = target, killed: list[int] = killed, over: threading.Event = over) -> None:
            after = chance.randint(1, 5)
            while not killed and not over.is_set():
                workers = python_workers(psutil.Process())
                if workers and has_committed(target, after):
                    victim = chance.choice(workers)
                    victim.kill()
                    killed.append(victim.pid)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            asked = request(source, target, commit_every_s=0.0, least_range_bytes=SMALL_RANGES)
            with Export(asked, ManyRanges(engine)) as run:
                run.run_once()
        finally:
            over.set()
            killer.join()
        assert killed
        check_complete(source, target, "parquet")


class ManyRanges:
    """An engine that says it has many workers, so that there are many ranges."""

    name = "spark"
    workers = RANGES // 2

    def __init__(self, engine: object) -> None:
        self.write = engine.write  # type: ignore[attr-defined]
        self.close = engine.close  # type: ignore[attr-defined]


def python_workers(driver: psutil.Process) -> list[psutil.Process]:
    """Those that do Spark's tasks: children of the daemon that the JVM has."""
    found = []
    for each in driver.children(recursive=True):
        try:
            parent = each.parent()
            if parent is not None and all("pyspark.daemon" in process.cmdline() for process in (each, parent)):
                found.append(each)
        except psutil.Error:
            continue
    return found


def test_headrace_export_runs_on_a_cluster(cluster: SparkCluster, source: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(HEADRACE), "export", "--include-system", "--master", cluster.url, str(source), str(tmp_path / "target")],
        env=cluster.environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("(spark)")
    check_complete(source, tmp_path / "target", "parquet")
    assert all(list(cluster.work_folder(number).glob("app-*/*")) for number in range(WORKERS)), "each had an executor"


def test_a_killed_executor_is_replaced_and_its_ranges_written_again(
    cluster: SparkCluster, source: Path, tmp_path: Path, chance: random.Random
) -> None:
    for number in range(rounds(1, 10)):
        target = tmp_path / f"target-{number}"
        driver = start(source, target, "parquet", cluster.url, cluster.environment())
        await_commits(driver, target, chance.randint(1, 10))
        executors = cluster.executors()
        assert executors
        chance.choice(executors).kill()
        assert not has_committed(target, RANGES), "it was still at it"
        assert driver.wait(300) == 0
        check_complete(source, target, "parquet")
