"""Spark exports whose driver, executors or Python workers are killed, on this machine and on a cluster of two workers.

Spark repeats unfinished tasks, and the next run, with either engine, completes what a killed driver had begun: each row
is exported exactly once. `make test` kills one process of each kind, each with a different format, in one session. The
full form (HEADRACE_CRASH_ROUNDS=full) kills each kind with each format at many random instants.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil
import pytest

from spark_exporter.planning.plan import open_source
from spark_exporter.running.verify import verify
from spark_exporter.targets.open_target import open_target
from support import golden
from support.crash import rounds
from support.exported import FORMATS, Row, expected_rows, export, read, rows_of
from support.servers import wait_until
from support.spark_cluster import WORKERS, SparkCluster, is_executor

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "killed_spark_export.py"
HEADRACE = Path(sys.executable).with_name("headrace")
LOCAL = "local[2]"
ROUNDS = rounds(1, 12)
RANGES = 20 if ROUNDS == 1 else 40
PATIENCE_S = 600
"""What a machine that does other things may take."""

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark-cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.unpack("unclean", tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wanted() -> list[Row]:
    return expected_rows("unclean")


class Application:
    """A Spark application that exports into one target after another, restarted whenever its driver was killed."""

    def __init__(self, source: Path, master: str, cluster: SparkCluster) -> None:
        self._command = [sys.executable, str(PROGRAM), str(source), master, str(RANGES // 2)]
        self._cluster = cluster
        self._is_on_cluster = master == cluster.url
        self._driver: subprocess.Popen[str] | None = None

    def begin(self, target: Path, table_format: str) -> None:
        """Starts an export."""
        if self._driver is None:
            environment = self._cluster.environment() if self._is_on_cluster else dict(os.environ)
            self._driver = subprocess.Popen(
                self._command,
                env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.PIPE,
                text=True,
            )
        assert self._driver.stdin is not None
        self._driver.stdin.write(f"{table_format} {target}\n")
        self._driver.stdin.flush()

    def await_commits(self, target: Path, count: int) -> None:
        """Waits until it has made this many commits or is done."""
        wait_until(
            lambda: self.is_done(target) or len(list(target.glob("_export/manifests/*.json"))) >= count,
            PATIENCE_S,
            "commits",
        )

    def await_end(self, target: Path) -> None:
        """Waits until it is done."""
        wait_until(lambda: self.is_done(target), PATIENCE_S, "the export's end")

    def is_done(self, target: Path) -> bool:
        """Whether the export is over; any other end is an error."""
        assert self._driver is not None
        assert self._driver.poll() is None, "the driver has failed"
        return target.with_name(f"{target.name}.done").exists()

    def kill(self, kind: str, target: Path, chance: random.Random) -> bool:
        """Kills the driver, an executor or a Python worker with SIGKILL. Returns False if there is none or it is done.

        Waits until all of its child processes have ended too, so that nothing is written afterwards. The driver is
        stopped meanwhile: the export cannot end before the victim has, however fast the machine is.
        """
        assert self._driver is not None
        driver = psutil.Process(self._driver.pid)
        driver.suspend()
        try:
            wait_until(lambda: driver.status() == psutil.STATUS_STOPPED, PATIENCE_S, "the driver's stop")
            return not self.is_done(target) and self._kill(kind, chance)
        finally:
            if self._driver is not None:
                driver.resume()

    def _kill(self, kind: str, chance: random.Random) -> bool:
        assert self._driver is not None
        everything = self._processes()
        victims = {
            "driver": [each for each in everything if each.pid == self._driver.pid],
            "executor": [each for each in everything if is_executor(each)],
            "worker": [each for each in everything if _is_python_worker(each)],
        }[kind]
        if not victims:
            return False
        victim = chance.choice(victims)
        with_it = everything if kind == "driver" else _with_children(victim)
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            return False
        if kind == "driver":
            assert self._driver.wait(PATIENCE_S) == -signal.SIGKILL
            assert self._driver.stdin is not None
            self._driver.stdin.close()
            self._driver = None
        _, alive = psutil.wait_procs(with_it, PATIENCE_S)
        assert alive == []
        return True

    def _processes(self) -> list[psutil.Process]:
        """The driver, its JVM, the executors, and their Python workers."""
        assert self._driver is not None
        executors = self._cluster.executors() if self._is_on_cluster else []
        return [each for one in (psutil.Process(self._driver.pid), *executors) for each in _with_children(one)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for a successful end."""
        if self._driver is not None:
            driver, self._driver = self._driver, None
            assert driver.stdin is not None
            driver.stdin.close()
            try:
                assert driver.wait(PATIENCE_S) == 0
            finally:
                driver.kill()


def _with_children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return [process]


def _is_python_worker(process: psutil.Process) -> bool:
    """Whether it runs Spark tasks: a child of a JVM's daemon."""
    try:
        parent = process.parent()
        return parent is not None and all("pyspark.daemon" in each.cmdline() for each in (process, parent))
    except psutil.Error:
        return False


def check_complete(source: Path, target: Path, table_format: str, wanted: list[Row]) -> None:
    """Checks that readers see each row once, that the target's own state agrees, and that no stray files are left."""
    opened = open_target(str(target))
    assert verify(open_source(source), opened, "broker").differences == ()
    assert rows_of(read(target, table_format)) == wanted
    left = [name for name in opened.sink.work.list("_export", below=True) if "staging" in name or "pending" in name]
    assert left == []
    assert not (source / "hold").exists()


def kill_one(application: Application, kind: str, table_format: str, folder: Path, chance: random.Random) -> Path:
    """Kills a process at a random instant of an export. Retries if the kill comes too late or finds no process."""
    for attempt in range(20):
        target = folder / f"{kind}-{table_format}-{attempt}"
        application.begin(target, table_format)
        # A driver may be killed before its first commit; its workers exist once something has been written.
        application.await_commits(target, chance.randint(0 if kind == "driver" else 1, RANGES // 2))
        time.sleep(chance.uniform(0, 0.3))
        was_killed = False
        while not was_killed and not application.is_done(target):
            was_killed = application.kill(kind, target, chance)
        if kind != "driver" or not was_killed:
            application.await_end(target)
        if was_killed:
            return target
    raise AssertionError(f"no {kind} could be killed in time")


def cases(number: int, chance: random.Random) -> list[tuple[str, str]]:
    """Which process is killed while which format is written; the driver last, because everything ends with it."""
    if ROUNDS == 1:
        return list(zip(("executor", "worker", "driver"), chance.sample(FORMATS, 3), strict=True))
    kinds = ("executor", "worker") if is_cluster_round(number) else ("worker",)
    before = [(kind, table_format) for kind in kinds for table_format in FORMATS]
    return [*chance.sample(before, len(before)), ("driver", FORMATS[number // 2 % 3])]


def is_cluster_round(number: int) -> bool:
    """The other rounds run on this machine alone."""
    return number % 2 == 0


def run_on_cluster(cluster: SparkCluster, folder: Path, source: str, target: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a folder; the workers have other working folders."""
    return subprocess.run(
        [str(HEADRACE), "export", "--include-system", "--master", cluster.url, source, target],
        cwd=folder,
        env=cluster.environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_export_on_a_cluster_resolves_paths_against_the_current_folder(
    cluster: SparkCluster, source: Path, wanted: list[Row], tmp_path: Path
) -> None:
    done = run_on_cluster(cluster, tmp_path, os.path.relpath(source, tmp_path), "./target")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("(spark)")
    check_complete(source, tmp_path / "target", "parquet", wanted)
    assert all(list(cluster.work_folder(number).glob("app-*/*")) for number in range(WORKERS)), (
        "a worker had no executor"
    )


@pytest.mark.parametrize("hidden", ["source", "target"])
def test_paths_that_workers_cannot_see_are_refused_before_writing(
    hidden: str, cluster: SparkCluster, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "store").symlink_to(source)
    before = sorted(tmp_path.rglob("*"))
    # The content of this path differs per process, like a local folder of each machine.
    own = "/proc/self/cwd"
    paths = {
        "source": str(source),
        "target": str(tmp_path / "lake"),
        hidden: f"{own}/{'store' if hidden == 'source' else 'lake'}",
    }
    done = run_on_cluster(cluster, tmp_path, paths["source"], paths["target"])
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if "has not allocated an executor yet" not in line]
    assert len(said) == 1, done.stderr
    assert " on worker " in said[0]
    assert sorted(tmp_path.rglob("*")) == before
    for number in range(WORKERS):
        assert list(cluster.work_folder(number).rglob("_export")) == []


def test_export_waits_for_a_full_cluster_and_reports_it(cluster: SparkCluster, source: Path, tmp_path: Path) -> None:
    environment = cluster.environment()
    environment["PYSPARK_SUBMIT_ARGS"] = environment["PYSPARK_SUBMIT_ARGS"].replace("=512m", "=9g")
    with subprocess.Popen(
        [str(HEADRACE), "export", "--workers", "2", "--master", cluster.url, str(source), str(tmp_path / "target")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stderr is not None
        assert f"{cluster.url} has not allocated an executor yet; waiting" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(PATIENCE_S) == 143
    assert list((tmp_path / "target").rglob("*.parquet")) == []


@pytest.mark.parametrize("number", range(ROUNDS))
def test_rows_are_exported_exactly_once_when_spark_processes_are_killed(
    number: int, cluster: SparkCluster, source: Path, wanted: list[Row], tmp_path: Path, chance: random.Random
) -> None:
    with Application(source, cluster.url if is_cluster_round(number) else LOCAL, cluster) as application:
        for kind, table_format in cases(number, chance):
            began = time.monotonic()
            target = kill_one(application, kind, table_format, tmp_path, chance)
            # Spark has repeated what an executor or worker had begun, so nothing is left to do; otherwise a run of the
            # other engine completes it.
            again = export(source, target, table_format)
            assert kind == "driver" or again.rows == 0
            check_complete(source, target, table_format, wanted)
            sys.stdout.write(
                f"{kind} {table_format} {time.monotonic() - began:.1f} s, {again.rows} rows by the next run\n"
            )
