"""Commits whose files are not where they should be: not decided if that is seen in time, withdrawn by the next run if not."""

import contextlib
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_exporter.errors import TargetError
from spark_exporter.planning.plan import open_source
from spark_exporter.reading.range_scan import ByteRange
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export
from spark_exporter.running.verify import verify
from spark_exporter.storage.location import Location
from spark_exporter.targets.ledger import Commit
from spark_exporter.targets.open_target import open_target
from spark_exporter.writing.range_files import WriteTask
from spark_exporter.writing.range_result import RangeResult
from support.exported import FORMATS, export, read, request, rows_of
from support.small_log import SmallLog

PROGRAM = Path(__file__).resolve().parents[2] / "support" / "killed_export.py"


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    log = SmallLog(tmp_path / "store")
    for number in range(150):
        log.append(f"{number} ".encode() * 200)
    log.write()
    return log


def check_complete(log: SmallLog, target: Path, table_format: str) -> None:
    """Each row once, and nothing that no commit names."""
    verified = verify(open_source(log.root), open_target(str(target)), "broker")
    assert (verified.differences, verified.strays) == ((), ())
    assert [row["commit_log_offset"] for row in rows_of(read(target, table_format))] == log.offsets


class ForgetfulEngine(LocalEngine):
    """Its workers write into folders that the driver does not see."""

    def write(
        self, ranges: Sequence[ByteRange], task: WriteTask, report: Callable[[int], None]
    ) -> Iterator[RangeResult]:
        for result in super().write(ranges, task, report):
            shutil.rmtree(task.staging.path_of(""))
            yield result


@pytest.mark.parametrize("table_format", FORMATS)
def test_commit_with_missing_files_is_not_decided(table_format: str, log: SmallLog, tmp_path: Path) -> None:
    target = tmp_path / "target"
    with (
        pytest.raises(TargetError, match="files written by workers are missing"),
        Export(request(log.root, target, table_format), ForgetfulEngine(1)) as run,
    ):
        run.run_once()
    assert open_target(str(target)).ledger.read_pending() is None
    export(log.root, target, table_format)
    check_complete(log, target, table_format)


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("moved", [0, 1])
def test_decided_commit_with_missing_files_is_withdrawn(
    moved: int, table_format: str, log: SmallLog, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    environment: dict[str, Any] = {
        **os.environ, "HEADRACE_EXPORT_KILL": "export.decided:2", "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    killed = subprocess.run(
        [sys.executable, str(PROGRAM), str(log.root), str(target), table_format], env=environment, check=False
    )
    assert killed.returncode == -9
    opened = open_target(str(target))
    pending = opened.ledger.read_pending()
    assert pending is not None
    staging = opened.ledger.staging(pending.run, pending.token)
    moves = opened.sink.moves(pending)
    for staged, folder, name in moves[:moved]:
        staging.move_to(staged, folder, name)
        folder.delete(name) if len(moves) == moved else None
    staging.delete_folder("")
    export(log.root, target, table_format)
    check_complete(log, target, table_format)
    assert [commit.kind for commit in open_target(str(target)).ledger.commits()][1] == "rollback"


def test_target_copied_without_its_locks_is_usable(log: SmallLog, tmp_path: Path) -> None:
    target = tmp_path / "target"
    for _ in range(3):
        export(log.root, target)
    log.append(b"one more")
    log.write()
    export(log.root, target)
    (target / "_export" / "lock").unlink()
    log.append(b"and another")
    log.write()
    assert export(log.root, target).rows == 1
    check_complete(log, target, "parquet")
    assert [commit.token for commit in open_target(str(target)).ledger.commits()] == [1, 2, 3]


@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_commit_published_by_two_runs_is_in_the_table_once(
    table_format: str, log: SmallLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = str(tmp_path / "target")
    export(log.root, target, table_format)
    for number in range(20):
        log.append(f"later {number}".encode())
    log.write()
    both = list[str]()

    def publish_twice(sleeper: Any, commit: Commit, staging: Location) -> None:
        """The other run does it all while this one is between its look at the table's mark and its own commit."""

        def meanwhile(*given: Any, **named: Any) -> Any:
            answer = original(*given, **named)
            if not both:
                both.append(commit.kind)
                publish(open_target(target).sink, commit, staging)
            return answer

        monkeypatch.setattr(place, what, meanwhile)
        publish(sleeper, commit, staging)

    place = importlib.import_module(f"spark_exporter.targets.{table_format}")
    what = {"iceberg": "_exported", "delta": "CommitProperties"}[table_format]
    original = getattr(place, what)
    kind = {"iceberg": "IcebergSink", "delta": "DeltaSink"}[table_format]
    publish = getattr(place, kind).publish
    monkeypatch.setattr(getattr(place, kind), "publish", publish_twice)
    with contextlib.suppress(
        TargetError
    ):  # Delta says that another commit has this transaction; Iceberg is asked again, and has it
        export(log.root, target, table_format)
    monkeypatch.undo()
    assert both == ["export"]
    assert export(log.root, target, table_format).rows == 0
    check_complete(log, Path(target), table_format)


def test_verify_lists_files_without_a_commit(log: SmallLog, tmp_path: Path) -> None:
    target = tmp_path / "target"
    export(log.root, target)
    first = min(target.glob("dt=*/*.parquet"))
    shutil.copy(first, first.with_name("part-of-nobody.parquet"))
    verified = verify(open_source(log.root), open_target(str(target)), "broker")
    assert verified.differences == ()
    assert verified.strays == (f"{first.parent.name}/part-of-nobody.parquet",)


@pytest.mark.parametrize("table_format", FORMATS)
def test_unfinished_files_of_a_killed_run_are_ignored_and_deleted(
    table_format: str, log: SmallLog, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    export(log.root, target, table_format)
    ledger = open_target(str(target)).sink.work.at("_export")
    unfinished = [
        f"{folder}/{2:020}.json{ending}"
        for folder in ("pending", "manifests", "bodies")
        for ending in (".8fa93700.new", ".new")
    ]
    for name in unfinished:
        with ledger.open_write(name) as file:
            file.write(b'{"half')
    for number in range(150, 160):
        log.append(f"{number} ".encode() * 200)
    log.write()
    export(log.root, target, table_format)
    check_complete(log, target, table_format)
    assert [name for name in unfinished if ledger.exists(name)] == []
