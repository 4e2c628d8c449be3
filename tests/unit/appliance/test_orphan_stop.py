"""The order in which roles stop after the supervisor has died."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.orphan_stop import OrphanStopOrder, is_alive
from ipc.instance import Instance

NOBODY = 0  # no process has this pid, so a role with this supervisor is an orphan


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    made = Instance.create(tmp_path, ["broker", "flush"], 16)
    yield made
    made.unlink()
    made.close()


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    """Ends when its input closes, and is reaped only by the test."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as made:
        yield made
        made.kill()


def test_supervised_role_stops_on_request(instance: Instance, process: "subprocess.Popen[bytes]") -> None:
    instance.health.supervised_row("broker").forked(process.pid)
    assert OrphanStopOrder(instance.health, ("broker",), os.getppid(), 60_000).may_stop()


def test_orphan_stops_after_the_roles_whose_work_it_finishes(
    instance: Instance, process: "subprocess.Popen[bytes]"
) -> None:
    instance.health.supervised_row("broker").forked(process.pid)
    order = OrphanStopOrder(instance.health, ("broker",), NOBODY, 60_000)
    assert not order.may_stop()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert order.may_stop()  # it has ended, but has not been reaped


def test_orphan_waits_only_until_a_deadline(instance: Instance, process: "subprocess.Popen[bytes]") -> None:
    instance.health.supervised_row("broker").forked(process.pid)
    assert OrphanStopOrder(instance.health, ("broker",), NOBODY, 0).may_stop()


def test_orphan_does_not_wait_for_stopped_or_missing_roles(instance: Instance) -> None:
    assert OrphanStopOrder(instance.health, ("broker", "ha"), NOBODY, 60_000).may_stop()


def test_orphan_without_predecessors_stops_at_once(instance: Instance, process: "subprocess.Popen[bytes]") -> None:
    instance.health.supervised_row("broker").forked(process.pid)
    assert OrphanStopOrder(instance.health, (), NOBODY, 60_000).may_stop()


def test_process_is_alive_until_it_ends(process: "subprocess.Popen[bytes]") -> None:
    assert is_alive(process.pid)
    process.kill()
    process.wait()
    assert not is_alive(process.pid)
    assert not is_alive(0)
