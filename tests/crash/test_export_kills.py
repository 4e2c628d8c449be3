"""A killed export, when run again, exports each row exactly once.

Runs are killed at named kill points of the commit and at random instants. `make test` does a few rounds, `make
test-export-kills` many (with Spark, a hundred).
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from spark_exporter.errors import TargetBusy
from spark_exporter.planning.plan import open_source
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export
from spark_exporter.running.verify import verify
from spark_exporter.storage.location import Location
from spark_exporter.targets.ledger import Ledger
from spark_exporter.targets.open_target import open_target
from spark_exporter.writing.range_result import RangeResult
from support import golden
from support.crash import rounds
from support.exported import FORMATS, expected_rows, read, request, rows_of
from support.small_log import STORE_MS, SmallLog, write_log

PLACES = ("export.range_written", "export.deciding", "export.decided", "export.published", "export.finished")
PROGRAM = Path(__file__).resolve().parents[1] / "support" / "killed_export.py"
PATIENCE_S = 300
"""What a machine that does other things may take."""

pytestmark = pytest.mark.timeout(3 * PATIENCE_S + 60 * rounds(1, 13))


def run_export(source: Path, target: Path, table_format: str, *more: str, kill_at: str = "") -> subprocess.Popen[bytes]:
    """An export in its own process that commits after every range and uses a worker pool even for a small log."""
    environment = {**os.environ, "HEADRACE_EXPORT_KILL": kill_at, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(source), str(target), table_format, *more],
        env=environment,
        stdin=subprocess.DEVNULL,
    )


def check_complete(source: Path, target: Path, table_format: str, wanted: list[dict[str, object]]) -> None:
    """Checks that readers see each row once, that the target's own state agrees, and that no stray files are left."""
    opened = open_target(str(target))
    verified = verify(open_source(source), opened, "broker")
    assert verified.differences == ()
    assert rows_of(read(target, table_format)) == wanted
    work = opened.sink.work
    assert [
        name
        for name in work.list("_export", below=True)
        if "staging" in name or name.endswith(".new") or "pending" in name
    ] == []
    assert not (source / "hold").exists()


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("place", PLACES)
def test_next_run_completes_an_export_killed_at_a_kill_point(place: str, table_format: str, tmp_path: Path) -> None:
    source = golden.unpack("slave", tmp_path)
    target = tmp_path / "target"
    count = {"export.range_written": 3, "export.deciding": 2}.get(place, 2)
    killed = run_export(source, target, table_format, kill_at=f"{place}:{count}")
    assert killed.wait(PATIENCE_S) == -signal.SIGKILL
    before = Ledger(Location(str(target)) if table_format != "iceberg" else open_target(str(target)).sink.work).last()
    assert before is not None, "no first commit"
    assert run_export(source, target, table_format).wait(PATIENCE_S) == 0
    check_complete(source, target, table_format, expected_rows("slave"))


@pytest.mark.parametrize("table_format", FORMATS)
def test_kills_at_random_instants_neither_lose_nor_duplicate_rows(
    table_format: str, tmp_path: Path, chance: random.Random
) -> None:
    source = golden.unpack("unclean", tmp_path)
    wanted = expected_rows("unclean")
    began = time.monotonic()
    assert run_export(source, tmp_path / "undisturbed", table_format, "--pool").wait(PATIENCE_S) == 0
    whole_s = time.monotonic() - began
    for number in range(rounds(1, 13)):
        target = tmp_path / f"target-{number}"
        flags = ["--pool", *(["--by-topic"] if number % 3 == 1 else [])]
        for _ in range(chance.randint(1, 3)):
            driver = run_export(source, target, table_format, *flags)
            kill_somewhere(driver, chance, whole_s)
            driver.wait(PATIENCE_S)
        assert run_export(source, target, table_format, *flags).wait(PATIENCE_S) == 0
        check_complete(source, target, table_format, wanted)


def kill_somewhere(driver: subprocess.Popen[bytes], chance: random.Random, whole_s: float) -> None:
    """Kills the driver or one of its workers after a random time."""
    try:
        driver.wait(chance.uniform(0.0, 1.2 * whole_s))
        return
    except subprocess.TimeoutExpired:
        pass
    victims = [driver.pid]
    if chance.random() < 0.5:
        victims = [child.pid for child in psutil.Process(driver.pid).children()] or victims
    try:
        os.kill(chance.choice(victims), signal.SIGKILL)
    except ProcessLookupError:
        pass


def test_killed_worker_is_replaced_and_its_range_rewritten(tmp_path: Path) -> None:
    source = golden.unpack("unclean", tmp_path)
    target = tmp_path / "target"
    driver = run_export(source, target, "parquet", "--pool", "--kill-worker")
    assert driver.wait(PATIENCE_S) == 0
    check_complete(source, target, "parquet", expected_rows("unclean"))


def test_second_run_exits_and_names_the_running_export(tmp_path: Path) -> None:
    source = golden.unpack("slave", tmp_path)
    target = tmp_path / "target"
    engine = LocalEngine(1)
    with Export(request(source, target), engine) as first:
        second = Export(request(source, target), engine)
        with pytest.raises(TargetBusy, match=f"in use by headrace export, pid {os.getpid()} on "), second:
            pass
        first.run_once()
    with Export(request(source, target), engine) as third:
        assert third.run_once().rows == 0


def test_segments_deleted_by_retention_during_export_are_still_exported(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000 + str(number).encode() for number in range(300)])
    target = tmp_path / "target"

    class DeletingEngine(LocalEngine):
        """Deletes all files but the last, as the broker would, before the first range is read."""

        def write(self, *of: Any) -> Iterator[RangeResult]:
            for path in sorted(log.folder.iterdir())[:-2]:
                path.unlink()
            return super().write(*of)

    with Export(request(log.root, target), DeletingEngine(1)) as export:
        summary = export.run_once()
    assert (summary.rows, summary.notes) == (300, [])
    assert [row["commit_log_offset"] for row in rows_of(read(target, "parquet"))] == log.offsets
    assert not (log.root / "hold").exists()


@pytest.mark.parametrize("place", ["compact.decided", "compact.published"])
def test_next_run_completes_a_killed_compaction(place: str, tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    target = tmp_path / "target"
    for number in range(4):
        log.append(b"x" * 500)
        log.append(b"the next day", store_timestamp=STORE_MS + 24 * 3600 * 1000 + number)
        log.write()
        assert run_export(log.root, target, "parquet").wait(PATIENCE_S) == 0
    before = rows_of(read(target, "parquet"))
    assert run_export(log.root, target, "parquet", "--compact", kill_at=place).wait(PATIENCE_S) == -signal.SIGKILL
    assert run_export(log.root, target, "parquet").wait(PATIENCE_S) == 0
    check_complete(log.root, target, "parquet", before)
    (first_day, *_) = sorted(target.glob("dt=*"))
    assert len(list(first_day.iterdir())) == 1


def test_tables_by_topic_are_complete_after_a_kill_between_two_tables(tmp_path: Path) -> None:
    source = golden.unpack("kinds", tmp_path)
    target = tmp_path / "target"
    killed = run_export(source, target, "delta", "--tables", kill_at="delta.committed:3")
    assert killed.wait(PATIENCE_S) == -signal.SIGKILL
    assert run_export(source, target, "delta", "--tables").wait(PATIENCE_S) == 0
    verified = verify(open_source(source), open_target(str(target)), "broker")
    assert (verified.differences, verified.rows) == ((), len(expected_rows("kinds")))


@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_body_schema_inferred_by_a_killed_run_is_kept(table_format: str, tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    for number in range(40):
        log.append(f'{{"id": {number}}}'.encode())
    log.write()
    target = tmp_path / "target"
    killed = run_export(log.root, target, table_format, "--typed", kill_at="export.decided")
    assert killed.wait(PATIENCE_S) == -signal.SIGKILL
    # Later bodies would give a different schema.
    for number in range(400):
        log.append(f'{{"id": "{number}", "more": 1}}'.encode())
    log.write()
    assert run_export(log.root, target, table_format, "--typed").wait(PATIENCE_S) == 0
    opened = open_target(str(target))
    verified = verify(open_source(log.root), opened, "broker")
    assert (verified.rows, verified.differences) == (440, ())
    assert sum(each.unfit for commit in opened.ledger.commits() for each in commit.ranges) == 400
