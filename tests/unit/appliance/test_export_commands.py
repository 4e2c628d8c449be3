"""The `headrace export` commands: output and exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appliance.cli.exporter import flushed_offset_of
from appliance.cli.main import headrace
from appliance.errors import ApplianceError
from ipc.instance import Instance
from support.small_log import STORE_MS, write_log


def run(*arguments: object) -> Result:
    return CliRunner().invoke(headrace, ["export", *map(str, arguments)])


@pytest.mark.slow
def test_store_can_be_exported_inspected_verified_and_compacted(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 20)
    target = tmp_path / "target"
    planned = run("--dry-run", log.root, target)
    assert planned.exit_code == 0, planned.output
    assert "1 range, " in planned.output
    assert "nothing exported yet" in planned.output
    assert not target.exists()
    done = run("--engine", "local", "--broker", "broker-a", "--cluster", "c", log.root, target)
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{target}: exported 20 of 20 records")
    status = json.loads(run("status", "--json", target).output)
    assert (status["rows"], status["progress"]["broker-a"]["end"], status["running"]) == (20, log.end, None)
    assert status["progress"]["broker-a"]["last_store_ms"] == STORE_MS + 19
    assert f"broker-a: offsets 0 to {log.end:,}" in run("status", target).output
    verified = run("verify", "--broker", "broker-a", log.root, target)
    assert (verified.exit_code, verified.output) == (0, f"{target}: OK, 1 range, 20 rows compared\n")
    assert run("compact", target).output == f"{target}: 0 partitions, 0 files merged into 0\n"
    assert f"exported up to offset {log.end:,}" in run("--dry-run", "--broker", "broker-a", log.root, target).output


@pytest.mark.slow
def test_verify_exits_with_1_when_a_file_lacks_rows(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 20)
    target = tmp_path / "target"
    run("--engine", "local", log.root, target)
    other = tmp_path / "other"
    run("--engine", "local", "--to", log.offsets[10], log.root, other)
    (wrong,), (right,) = other.glob("dt=*/*.parquet"), target.glob("dt=*/*.parquet")
    right.write_bytes(wrong.read_bytes())
    verified = run("verify", log.root, target)
    assert verified.exit_code == 0  # click's test runner does not see a command's return value
    assert "10 rows in the table, 20 in the log" in verified.output
    assert "1 difference, " in verified.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{tmp}/nowhere", "{tmp}/target"], "no such folder"),
        (["{tmp}", "{tmp}/target"], "is not a store"),
        (["status", "{tmp}/target"], "nothing was exported there"),
        (["verify", "{tmp}", "{tmp}/target"], "is not a store"),
        (["compact", "{tmp}/target"], "nothing was exported there"),
    ],
)
def test_error_is_printed_in_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    result = run(*[each.format(tmp=tmp_path) for each in arguments])
    assert isinstance(result.exception, ApplianceError)
    assert said in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not (tmp_path / "target").exists()


@pytest.mark.slow
def test_bodies_are_typed_and_mismatches_reported(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b'{"id": 1}', b'{"id": 2}', b'{"id": "three"}'])
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    for target, body in ((tmp_path / "given", f"json:{schema}"), (tmp_path / "inferred", "json")):
        done = run("--engine", "local", "--body", body, log.root, target)
        assert done.exit_code == 0, done.output
        assert "1 bodies do not match their schema" in done.output
        assert "typed bodies; 1 do not match their schema" in run("status", target).output
        assert json.loads(run("status", "--json", target).output)["unfit"] == 1
        assert run("verify", log.root, target).output == f"{target}: OK, 1 range, 3 rows compared\n"
    assert (tmp_path / "inferred" / "Orders").is_dir()
    schema.write_text('{"type": "object", "properties": {"id": {"type": "text"}}}')
    refused = run("--engine", "local", "--body", f"json:{schema}", log.root, tmp_path / "other").exception
    assert isinstance(refused, ApplianceError)
    assert str(refused) == f"{schema}: #/properties/id: unknown type text"
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    "option",
    [
        ["--from", "yesterday"],
        ["--format", "csv"],
        ["--follow", "0"],
        ["--body", "xml"],
        ["--body", "json", "--raw-body"],
        ["--small-topics", "8"],
        ["--small-topics", "8", "--group-by", "topic", "--table-per-topic"],
        ["--small-topics", "8", "--group-by", "topic", "--body", "json"],
    ],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, option: list[str]) -> None:
    write_log(tmp_path / "store", [b"x"])
    assert run(*option, tmp_path / "store", tmp_path / "target").exit_code == 2


def test_export_asks_a_running_appliance_for_its_flushed_offset(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"])
    read = flushed_offset_of(tmp_path)
    assert read() is None
    instance = Instance.create(log.root)
    try:
        assert read() == 0
        assert flushed_offset_of(log.root)() == 0
        assert flushed_offset_of(log.folder)() == 0
    finally:
        instance.unlink()
        instance.close()
    assert read() is None


def test_export_run_is_the_command_even_if_a_folder_has_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "run", [b"x"] * 7)
    missing = run("run", "lake")
    assert missing.exit_code == 2
    assert "Missing argument 'TARGET'" in missing.output
    assert "exported 7 of 7 records" in run("./run", "lake", "--engine", "local").output


def test_run_is_the_default_export_command(tmp_path: Path) -> None:
    said: list[Any] = [run("--help").output, run("run", "--help").output]
    assert "status" in said[0]
    assert "--group-by" in said[1]
    assert isinstance(run(tmp_path / "nowhere", tmp_path / "x").exception, ApplianceError)
