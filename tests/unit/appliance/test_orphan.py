"""The order of stopping when the supervisor is gone."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.orphan import OrphanOrder, lives
from ipc.instance import Instance

NOBODY = 0  # no process has this pid, so whoever takes it for its supervisor is an orphan


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    made = Instance.create(tmp_path, ["broker", "flush"], 16)
    yield made
    made.unlink()
    made.close()


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    """Ends with its input, and is not waited for before the test does."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as made:
        yield made
        made.kill()


def test_under_a_supervisor_a_role_stops_when_it_is_told(
    instance: Instance, process: "subprocess.Popen[bytes]"
) -> None:
    instance.health.supervised_row("broker").forked(process.pid)
    assert OrphanOrder(instance.health, ("broker",), os.getppid(), 60_000).may_stop()


def test_an_orphan_outlives_those_whose_work_it_finishes(
    instance: Instance, process: "subprocess.Popen[bytes]"
) -> None:
    instance.health.supervised_row("broker").forked(process.pid)
    order = OrphanOrder(instance.health, ("broker",), NOBODY, 60_000)
    assert not order.may_stop()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert order.may_stop()  # it has ended, although nobody has waited for it


def test_an_orphan_does_not_wait_for_ever(instance: Instance, process: "subprocess.Popen[bytes]") -> None:
    instance.health.supervised_row("broker").forked(process.pid)
    assert OrphanOrder(instance.health, ("broker",), NOBODY, 0).may_stop()


def test_an_orphan_does_not_wait_for_a_role_that_was_down_or_is_not_there(instance: Instance) -> None:
    assert OrphanOrder(instance.health, ("broker", "ha"), NOBODY, 60_000).may_stop()


def test_a_role_that_outlives_nobody_stops_at_once(instance: Instance, process: "subprocess.Popen[bytes]") -> None:
    instance.health.supervised_row("broker").forked(process.pid)
    assert OrphanOrder(instance.health, (), NOBODY, 60_000).may_stop()


def test_a_process_lives_until_it_has_ended(process: "subprocess.Popen[bytes]") -> None:
    assert lives(process.pid)
    process.kill()
    process.wait()
    assert not lives(process.pid)
    assert not lives(0)
