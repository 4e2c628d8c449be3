"""The status of exports as the console reads it from files: the same as the exporter's own, and whatever the files contain."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_exporter.reading.record_choice import RecordChoice
from spark_exporter.running.status import read_status
from spark_exporter.targets.open_target import open_target
from spark_exporter.targets.owner_process import describe_this_process
from spark_exporter.writing.layout import Layout
from support.exported import export
from support.small_log import SmallLog
from web.pages.exports import target_files
from web.pages.exports.target_files import Target, TargetFiles


def log_of(root: Path, rounds: int = 3) -> SmallLog:
    log = SmallLog(root)
    for number in range(rounds):
        log.append(b"x" * 100 * number, topic="Orders" if number % 2 else "Bills")
    log.write()
    return log


def found(folder: Path, name: str = "lake", files: TargetFiles | None = None) -> Target:
    target = (files or TargetFiles()).find(folder, name)
    assert target is not None
    return target


@pytest.mark.slow
@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_status_is_that_of_the_exporter(tmp_path: Path, table_format: str) -> None:
    log = log_of(tmp_path / "store")
    choice = RecordChoice(frozenset({"Orders", "Bills"}))
    files = TargetFiles()
    for broker in ("a", "b"):
        export(log.root, tmp_path / "lake", table_format, choice=choice, broker_name=broker)
        log.append(b"more")
        log.write()
        export(log.root, tmp_path / "lake", table_format, choice=choice, broker_name=broker)
        target, status = found(tmp_path, files=files), read_status(open_target(str(tmp_path / "lake")))
        assert (target.format, list(target.topics), target.is_plain) == (table_format, ["Bills", "Orders"], True)
        assert (target.rows, target.damaged, target.commits) == (status.rows, status.damaged, status.commits)
        assert target.written_bytes == status.file_bytes
        assert {one.broker: (one.first, one.end, one.last_stored) for one in target.progress} == {
            name: (one.first, one.end, one.last_store_ms) for name, one in status.progress.items()
        }
    assert target == found(tmp_path)  # as read at once
    assert target.last_commit > 1_700_000_000_000
    assert TargetFiles().list(tmp_path) == ([target], 0)


@pytest.mark.slow
def test_target_with_other_options_is_not_plain(tmp_path: Path) -> None:
    log = log_of(tmp_path / "store")
    export(log.root, tmp_path / "topics", layout=Layout(group_by_topic=True), choice=RecordChoice())
    export(log.root, tmp_path / "system", choice=RecordChoice(include_system=True))
    assert [one.is_plain for one in TargetFiles().list(tmp_path)[0]] == [False, False]


# ---- made by hand


def make(folder: Path, name: str = "lake", manifests: int = 1, **spec: Any) -> Path:
    own = folder / name / "_export"
    (own / "manifests").mkdir(parents=True)
    content = {"format": "parquet", "choice": {"topics": None}, "layout": {}, **spec}
    (own / "target.json").write_text(json.dumps(content))
    for number in range(1, manifests + 1):
        add(own, number)
    return own


def add(own: Path, number: int, rows: int = 1) -> None:
    commit = {
        "progress": {"a": {"first": 0, "end": number, "last_store_ms": number}},
        "ranges": [{"rows": rows, "damaged": 0}],
        "files": [{"size_bytes": 10}],
        "time_ms": number,
    }
    (own / "manifests" / f"{number:020}.json").write_text(json.dumps(commit))


def test_each_manifest_is_read_once(tmp_path: Path) -> None:
    own, files = make(tmp_path, manifests=3), TargetFiles()
    assert found(tmp_path, files=files).rows == 3
    add(own, 2, rows=100)  # manifests never change: what is read of this one now would be new
    add(own, 4, rows=10)
    assert found(tmp_path, files=files).rows == 13


def test_sums_are_unknown_until_all_manifests_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_files, "_MOST_MANIFESTS", 2)
    make(tmp_path, manifests=5)
    files = TargetFiles()
    assert [found(tmp_path, files=files).rows for _ in range(4)] == [None, None, 5, 5]


def test_target_that_was_made_again_is_counted_again(tmp_path: Path) -> None:
    own, files = make(tmp_path, manifests=3), TargetFiles()
    assert found(tmp_path, files=files).rows == 3
    own.rename(tmp_path / "old")
    make(tmp_path / "new")
    (tmp_path / "new" / "lake" / "_export").rename(own)
    assert found(tmp_path, files=files).rows == 1


def test_folders_beyond_the_limit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_files, "MOST_TARGETS", 2)
    for number in range(5):
        make(tmp_path, f"lake{number}")
    targets, left_out = TargetFiles().list(tmp_path)
    assert ([one.target for one in targets], left_out) == (["lake0", "lake1"], 3)


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "lake/../lake", "/etc", "lake\n", "-x", "x" * 65, "\udcff"])
def test_name_that_is_not_a_folder_s_is_not_looked_for(tmp_path: Path, name: str) -> None:
    make(tmp_path)
    assert TargetFiles().find(tmp_path, name) is None


@pytest.mark.parametrize("place", ["lake", "lake/_export"])
def test_links_are_not_followed(tmp_path: Path, place: str) -> None:
    make(tmp_path / "elsewhere")
    link = tmp_path / "exports" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere" / place)
    assert TargetFiles().find(tmp_path / "exports", "lake") is None
    assert TargetFiles().list(tmp_path / "exports") == ([], 0)


@pytest.mark.parametrize("name", ["target.json", "manifests/00000000000000000001.json"])
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": 7, "choice": {}, "layout": {}}',
     b'{"progress": {"a": {"first": "x"}}}', b'{"progress": {"a": {"first": 1e400, "end": 0, "last_store_ms": 0}}}'],
)  # fmt: skip
def test_file_with_anything_else_is_a_problem_of_its_target(tmp_path: Path, name: str, content: bytes) -> None:
    own = make(tmp_path)
    make(tmp_path, "sound")
    (own / name).write_bytes(content)
    targets, _ = TargetFiles().list(tmp_path)
    assert f"{Path(name).name} is corrupt" in targets[0].problem
    assert (targets[1].problem, targets[1].rows) == ("", 1)


@pytest.mark.parametrize("name", ["target.json", "manifests/00000000000000000001.json"])
def test_link_or_pipe_in_place_of_a_file_is_a_problem(tmp_path: Path, name: str) -> None:
    own = make(tmp_path)
    (own / name).unlink()
    os.mkfifo(own / name)
    assert "is not a file" in found(tmp_path).problem
    (own / name).unlink()
    (own / name).symlink_to("/etc/passwd")
    assert "Too many levels of symbolic links" in found(tmp_path).problem


def test_file_that_is_too_large_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_files, "_LONGEST_BYTES", 20)
    make(tmp_path)
    assert found(tmp_path).problem == "target.json is larger than 20 bytes"


# ---- owners


def owner_of(tmp_path: Path, lock: bytes) -> str:
    own = make(tmp_path)
    (own / "lock").write_bytes(lock)
    return found(tmp_path).owner


def test_owner_is_the_process_that_holds_the_lock(tmp_path: Path) -> None:
    lock = {"command": "headrace export", **describe_this_process()}
    assert owner_of(tmp_path, json.dumps(lock).encode()) == f"headrace export, pid {os.getpid()}"


def test_owner_that_has_died_is_none(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "pass"]) as process:
        process.wait()
    dead = {**describe_this_process(), "command": "headrace export", "pid": process.pid}
    assert owner_of(tmp_path, json.dumps(dead).encode()) == ""


def test_owner_whose_id_another_process_has_now_is_none(tmp_path: Path) -> None:
    reused = {**describe_this_process(), "command": "headrace export", "started": 1}
    assert owner_of(tmp_path, json.dumps(reused).encode()) == ""


@pytest.mark.parametrize(
    "lock", [b"", b"{", b"{}", b"7", b'{"pid": -1}', b'{"pid": 99999999999999999999}', b'{"pid": "1"}']
)
def test_lock_without_an_owner_is_none(tmp_path: Path, lock: bytes) -> None:
    assert owner_of(tmp_path, lock) == ""
