"""The systemd units agree with the appliance's own defaults."""

import re
from pathlib import Path

import pytest

from appliance import exit_code
from appliance.config import ApplianceConfig

SYSTEMD = Path(__file__).parents[3] / "systemd"


def read_unit(name: str) -> dict[str, str]:
    """The settings of a unit; a setting that is given twice has both values, with a space between."""
    settings: dict[str, str] = {}
    for line in (SYSTEMD / name).read_text(encoding="utf-8").splitlines():
        if found := re.fullmatch(r"(\w+)=(.*)", line):
            settings[found[1]] = f"{settings[found[1]]} {found[2]}" if found[1] in settings else found[2]
    return settings


@pytest.fixture(params=["headrace.service", "headrace@.service"])
def unit(request: pytest.FixtureRequest) -> dict[str, str]:
    return read_unit(request.param)


def test_watchdog_leaves_the_supervisor_time_to_restart_a_silent_role(unit: dict[str, str]) -> None:
    assert unit["Type"] == "notify"
    assert int(unit["WatchdogSec"]) * 1000 >= ApplianceConfig().heartbeat_timeout + 10_000


def test_roles_are_killed_by_the_supervisor_before_systemd_kills_them(unit: dict[str, str]) -> None:
    assert int(unit["TimeoutStopSec"]) * 1000 > ApplianceConfig().role_stop_timeout
    assert int(unit["TimeoutStartSec"]) * 1000 > ApplianceConfig().store_lock_wait
    assert unit["KillMode"] == "control-group"  # mixed kills roles at once if the supervisor has died


def test_start_that_was_refused_for_a_reason_is_not_repeated(unit: dict[str, str]) -> None:
    refused = {exit_code.BAD_CONFIGURATION, exit_code.COULD_NOT_START}
    assert exit_code.PROGRAM_REPLACED not in refused
    assert {int(code) for code in unit["RestartPreventExitStatus"].split()} == refused


def test_process_killed_for_lack_of_memory_does_not_end_the_others(unit: dict[str, str]) -> None:
    assert unit["OOMPolicy"] == "continue"


def test_filter_functions_can_still_be_sandboxed(unit: dict[str, str]) -> None:
    allowed = unit["SystemCallFilter"].split()
    assert {"seccomp", "landlock_create_ruleset", "landlock_restrict_self"} <= set(allowed)


def test_instances_differ_from_the_single_appliance_only_in_their_folders() -> None:
    single, instance = read_unit("headrace.service"), read_unit("headrace@.service")
    assert not [key for key in ("LogsDirectory", "LogsDirectoryMode") if key in instance]
    differing = {key for key in instance if instance[key] != single[key]}
    assert differing == {
        "Description",
        "Environment",
        "EnvironmentFile",
        "ExecReload",
        "ExecStart",
        "ReadWritePaths",
        "StateDirectory",
        "SyslogIdentifier",
    }
    for key in ("ExecReload", "ExecStart"):
        assert instance[key].replace("/etc/headrace/%i/", "/etc/headrace/") == single[key]


def test_addresses_of_the_machine_can_be_listed(unit: dict[str, str]) -> None:
    """With host = "0.0.0.0" and without brokerIP1 the broker looks for one (getifaddrs uses netlink)."""
    assert "AF_NETLINK" in unit["RestrictAddressFamilies"].split()


def test_packages_open_the_format_that_they_create() -> None:
    folders = (SYSTEMD / "headrace.tmpfiles").read_text(encoding="utf-8")
    check = (SYSTEMD.parent / "packaging" / "maintenance" / "check-format").read_text(encoding="utf-8")
    made = re.search(r"^f /var/lib/headrace/format .* (\d+)$", folders, re.MULTILINE)
    known = re.search(r"^FORMAT=(\d+)$", check, re.MULTILINE)
    assert made
    assert known
    assert made[1] == known[1]
