"""The `headrace` command on its own: help, wrong usage, `config check`, and its output when no appliance is running."""

import subprocess
import sys
from pathlib import Path

import pytest

from appliance import exit_code
from support.headrace_process import REPOSITORY, headrace

pytestmark = pytest.mark.slow

COMMANDS = (
    ("run",), ("status",), ("stop",), ("start",), ("restart",), ("config",), ("config", "check"), ("store",),
    ("store", "dump"), ("store", "verify"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    said = headrace(*command, "--help")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith(f"Usage: headrace {' '.join(command)} [OPTIONS]")


def test_command_list_has_one_line_per_command() -> None:
    said = headrace("--help").stdout
    for command, *_ in COMMANDS:
        assert f"\n  {command} " in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "No such command 'rnu'"),
        (["start"], "Missing argument 'ROLE'"),
        (["status", "--yaml"], "No such option"),
        (["run", "--port", "many"], "'many' is not a valid integer"),
        (["run", "--set"], "requires an argument"),
    ],
)
def test_wrong_usage_prints_an_explanation(arguments: list[str], message: str) -> None:
    said = headrace(*arguments)
    assert said.returncode == exit_code.BAD_CONFIGURATION
    assert message in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize(
    "arguments", [["status"], ["stop"], ["stop", "broker"], ["start", "broker"], ["restart", "broker"]]
)
def test_commands_print_one_line_when_no_appliance_is_running(tmp_path: Path, arguments: list[str]) -> None:
    said = headrace(*arguments, "--data", tmp_path)
    assert said.returncode == exit_code.FAILED
    assert said.stderr.startswith(f"headrace: no appliance is running on {tmp_path}")
    assert said.stderr.count("\n") == 1
    assert said.stdout == ""


def test_config_check_lists_options_without_effect(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=a\nbrokrRole=SLAVE\nsendMessageThreadPoolNums=8\n")
    said = headrace("config", "check", conf)
    assert said.returncode == 0
    assert "unknown key brokrRole (did you mean brokerRole?)" in said.stdout
    assert "sendMessageThreadPoolNums has no effect" in said.stdout
    assert said.stdout.endswith(f"{conf}: OK, 2 warnings\n")


def test_config_check_fails_on_invalid_values(tmp_path: Path) -> None:
    toml = tmp_path / "appliance.toml"
    toml.write_text("heartbeatTimout = 5000\n")
    said = headrace("config", "check", toml)
    assert said.returncode == exit_code.BAD_CONFIGURATION
    assert said.stderr == f"headrace: {toml}: unknown key heartbeatTimout (did you mean heartbeatTimeout?)\n"


def test_config_check_reports_a_valid_file(tmp_path: Path) -> None:
    toml = tmp_path / "appliance.toml"
    toml.write_text('logFormat = "json"\n')
    said = headrace("config", "check", toml, "--data", tmp_path)
    assert said.returncode == 0
    assert said.stdout == (
        f"{toml}: OK\n"
        "broker  role          port   VIP channel  HA     store\n"
        f"broker  ASYNC_MASTER  10911        10909  10912  {tmp_path}/store\n"
    )


def test_config_check_lists_the_brokers_with_role_ports_and_store(tmp_path: Path) -> None:
    toml = tmp_path / "appliance.toml"
    toml.write_text(
        'haEnable = false\n[[broker]]\n[[broker]]\nname = "copy"\nbrokerRole = "SLAVE"\nbrokerId = 1\nstore = "/srv/copy"\n'
    )
    said = headrace("config", "check", toml, "--data", tmp_path)
    assert said.returncode == 0
    assert [line.split() for line in said.stdout.splitlines()] == [
        [f"{toml}:", "OK"],
        ["broker", "role", "port", "VIP", "channel", "HA", "store"],
        ["broker-a", "ASYNC_MASTER", "10911", "10909", "off", f"{tmp_path}/broker-a/store"],
        ["copy", "SLAVE", "10921", "10919", "off", "/srv/copy"],
    ]


def test_config_check_fails_on_nested_stores(tmp_path: Path) -> None:
    toml = tmp_path / "appliance.toml"
    toml.write_text('[[broker]]\n[[broker]]\nstore = "broker-a/store/b"\n')
    said = headrace("config", "check", toml, "--data", tmp_path)
    assert said.returncode == exit_code.BAD_CONFIGURATION
    assert said.stderr.startswith(f"headrace: the folder {tmp_path}/broker-a/store/b of broker broker-b is inside")


def test_status_command_does_not_import_server_modules() -> None:
    code = "import sys, appliance.cli.main, appliance.cli.commands.status; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    ).stdout.split()
    assert {"asyncio", "broker", "store", "psutil", "multiprocessing"}.isdisjoint(modules)


def test_commands_that_use_the_supervisor_import_neither_asyncio_nor_role_modules() -> None:
    code = "import sys, appliance.boot; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    ).stdout.split()
    assert {
        "asyncio",
        "uvloop",
        "headrace.remoting",
        "broker.broker",
        "nameserver.daemon",
        "store.dispatch",
    }.isdisjoint(modules)
