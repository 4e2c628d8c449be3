"""Targets in uses that are odd but happen: two logs with the same offsets, names that were mistyped, folders that vanish, runs that died."""

import json
import shutil
import socket
from pathlib import Path

import pytest

from spark_exporter.errors import TargetError, TargetMismatch
from spark_exporter.planning.plan import open_source
from spark_exporter.running.compact import compact
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export, follow
from spark_exporter.running.status import read_status
from spark_exporter.running.verify import verify
from spark_exporter.targets.open_target import open_target
from spark_exporter.targets.target_lock import LOCK, TargetLock
from support.exported import FORMATS, export, read, request
from support.small_log import STORE_MS, SmallLog, write_log

DAY_MS = 86_400_000
NO_PROCESS = 1 << 30


def test_compaction_separates_logs_with_equal_offsets(tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    for number in range(9):
        log.append(b"x" * 20_000, store_timestamp=STORE_MS + number // 6 * DAY_MS)
    log.write()
    target = tmp_path / "target"
    for name in ("a", "b"):
        export(log.root, target, broker_name=name)
        assert compact(open_target(str(target))).partitions == 1
    assert read(target, "parquet").num_rows == 18
    for name in ("a", "b"):
        assert verify(open_source(log.root), open_target(str(target)), name).differences == ()


def test_verify_of_an_unknown_broker_fails(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 5)
    export(log.root, tmp_path / "target", broker_name="one")
    with pytest.raises(TargetError, match="has no data of broker broker; it has: one"):
        verify(open_source(log.root), open_target(str(tmp_path / "target")), "broker")


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_catalog_table_name_is_not_taken_for_a_folder(table_format: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"])
    with pytest.raises(TargetError, match="--format iceberg"):
        export(log.root, f"{tmp_path}/lake#a.b", table_format)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_reading_a_missing_target_creates_nothing(tmp_path: Path) -> None:
    for target in (f"{tmp_path}/lake", f"sqlite:///{tmp_path}/catalog.db?warehouse=file://{tmp_path}/w#lake.messages"):
        with pytest.raises(TargetError, match="nothing was exported there"):
            open_target(target)
    assert list(tmp_path.iterdir()) == []


def test_path_that_cannot_be_a_folder_is_refused_as_target(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"])
    with pytest.raises(TargetError, match="cannot create folder /proc/lake: this file system"):
        export(log.root, "/proc/lake")


def test_target_inside_the_source_store_and_empty_target_are_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"])
    before = sorted(log.root.rglob("*"))
    for table_format in FORMATS:
        for target in (log.root, log.folder, log.folder / "lake"):
            with pytest.raises(TargetError, match="is inside the source store"):
                export(log.root, target, table_format)
        with pytest.raises(TargetError, match="no target given"):
            export(log.root, "", table_format)
    assert sorted(log.root.rglob("*")) == before


def test_catalog_without_a_warehouse_gets_an_error_with_the_remedy(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"])
    with pytest.raises(TargetError, match="\\?warehouse=URI#NAMESPACE"):
        export(log.root, f"sqlite:///{tmp_path}/catalog.db#lake.messages", "iceberg")


def test_dead_run_is_not_reported_as_running(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 5)
    target = tmp_path / "target"
    export(log.root, target)
    assert read_status(open_target(str(target))).running is None
    with TargetLock(open_target(str(target)).sink.work, "run", "headrace export"):
        assert '"headrace export"' in (read_status(open_target(str(target))).running or "")
        said = json.loads((target / LOCK).read_text())
    for owner, is_running in (
        ({}, True),
        ({"pid": NO_PROCESS}, False),
        ({"started": said["started"] - 1}, False),  # the number of a process is given again
        ({"pid": NO_PROCESS, "host": socket.gethostname() + "-2"}, True),
        ({"pid": NO_PROCESS, "pid_namespace": "that of a container"}, True),
    ):
        (target / LOCK).write_text(json.dumps({**said, **owner}))
        assert (read_status(open_target(str(target))).running is not None) == is_running


def test_target_of_another_version_or_damaged_target_is_reported(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 5)
    target = tmp_path / "target"
    export(log.root, target)
    made, manifest = (target / "_export" / name for name in ("target.json", f"manifests/{1:020}.json"))
    whole = made.read_text()
    made.write_text(json.dumps({**json.loads(whole), "schema_version": 2, "what comes later": True}))
    with pytest.raises(TargetMismatch, match="was created with schema_version 2, not 1"):
        open_target(str(target))
    made.write_text(whole[:50])
    with pytest.raises(TargetError, match=r"target\.json is corrupt: it is not JSON"):
        open_target(str(target))
    made.write_text(whole)
    manifest.write_bytes(b"")
    with pytest.raises(TargetError, match=r"1\.json is corrupt: it is not JSON"):
        read_status(open_target(str(target)))
    with pytest.raises(TargetError, match=r"1\.json is corrupt: it is not JSON"):
        export(log.root, target)


def test_following_ends_when_the_target_is_deleted(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 5)
    target = tmp_path / "target"

    def delete(_seconds: float) -> None:
        assert len(log.offsets) == 5, "another round"
        shutil.rmtree(target)
        log.append(b"y")
        log.write()

    with (
        pytest.raises(TargetError, match="target was deleted during the export; run the export again"),
        Export(request(log.root, target), LocalEngine(1)) as run,
    ):
        follow(run, 1.0, lambda _done: None, wait=delete)
    assert list(target.rglob("*.parquet")) == []
