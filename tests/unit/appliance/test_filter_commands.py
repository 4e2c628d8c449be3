"""`headrace filter`: installing, refusals, and the list."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appliance.cli.commands.filter import command
from appliance.errors import ApplianceError
from appliance.paths import AppliancePaths
from store.filter.python.functions import REPORT, FunctionFolder

GOOD = "def wants(message):\n    return True\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data" / "store" / "config").mkdir(parents=True)
    return tmp_path / "data"


def run(*arguments: object, check: bool = True) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=not check)


def refusal(*arguments: object) -> str:
    error = run(*arguments, check=False).exception
    assert isinstance(error, ApplianceError), error
    return str(error)


def folder_of(data: Path) -> FunctionFolder:
    return FunctionFolder(data / "store" / "config" / "filters")


def file(folder: Path, name: str, text: str = GOOD) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.slow
def test_function_is_installed_when_it_can_be_loaded(data: Path, tmp_path: Path) -> None:
    good = file(tmp_path, "good.py")
    assert run("check", good).output == "good: OK\n"
    assert run("put", good, "--data", data).output == "good installed\n"
    assert run("put", good, "--data", data, "--name", "other").output == "other installed\n"
    assert folder_of(data).names() == ["good", "other"]
    bad = file(tmp_path, "good.py", "import os\nos.listdir('/')\n" + GOOD)
    assert "the filter function good cannot be used: PermissionError" in refusal("put", bad, "--data", data)
    found = folder_of(data).find("good")
    assert found is not None
    assert found.source == GOOD


def test_reinstalled_or_enabled_function_has_a_new_version(data: Path, tmp_path: Path) -> None:
    path = file(tmp_path, "good.py")
    folder = folder_of(data)
    versions = []
    for arguments in (("put", path, "--no-check"), ("put", path, "--no-check"), ("enable", "good")):
        run(*arguments, "--data", data)
        versions.append(folder.version("good"))
    assert len(set(versions)) == 3
    assert run("remove", "good", "--data", data).output == "good removed\n"
    assert folder.names() == []


def test_invalid_function_is_refused_in_one_line(data: Path, tmp_path: Path) -> None:
    assert "no appliance has run in this folder" in refusal("list", "--data", tmp_path / "elsewhere")
    assert "No such file" in refusal("put", tmp_path / "none.py", "--data", data)
    assert "'two words' is not a valid function name" in refusal("put", file(tmp_path, "two words.py"), "--data", data)
    assert "'../up' is not a valid function name" in refusal(
        "put", file(tmp_path, "x.py"), "--data", data, "--name", "../up"
    )
    assert "larger than 256 KiB" in refusal("check", file(tmp_path, "long.py", "#" * (257 << 10)))
    run("put", file(tmp_path, "good.py"), "--data", data, "--no-check")
    for do in ("remove", "enable"):
        assert (
            refusal(do, "nothing", "--data", data) == "filter function nothing does not exist; existing functions: good"
        )


def test_list_shows_the_brokers_report_for_this_version(data: Path, tmp_path: Path) -> None:
    assert "install one with" in run("list", "--data", data).output
    for name in ("one", "two"):
        run("put", file(tmp_path, f"{name}.py"), "--data", data, "--no-check")
    account = {
        "calls": 7, "messages": 2000, "matched": 5, "busy_ms": 500.0, "failures": 3, "failed_messages": 1, "last_reason": "crashed: its worker process exited",
        "last_failure_ms": 1_700_000_000_000, "disabled_reason": "crashed: its worker process exited", "worker": None,
    }  # fmt: skip
    report = {
        "one": account | {"version": folder_of(data).version("one")},
        "two": account | {"version": "an older one"},
    }
    (data / "store" / "config" / REPORT).write_text(json.dumps(report))
    _, one, two = run("list", "--data", data).output.splitlines()
    assert one.split()[:4] == ["one", "disabled", "-", "7"]
    assert all(
        word in one
        for word in ("2,000", "0.250 ms", "3 + 1 messages", "2023-11-", "crashed: its worker process exited")
    )
    assert two.split() == ["two", "idle", "-", "0", "0", "0", "-", "0", "-"]
    assert json.loads(run("list", "--data", data, "--json").output)["one"]["calls"] == 7


def test_commands_read_the_folder_that_the_broker_reports_to(tmp_path: Path) -> None:
    assert Path(AppliancePaths(str(tmp_path)).broker().filter_report) == tmp_path / "store" / "config" / REPORT
