"""Settings of a process in the operating system."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.scheduling import HAS_SLICES, Scheduling

PROGRAM = """
import os, sys
from appliance import process
from support.scheduling import scheduling_of
os.sched_setscheduler(0, int(sys.argv[1]), os.sched_param(0))
os.nice(5)
getattr(process, sys.argv[2])()
print(*scheduling_of(0))
"""
TESTS = Path(__file__).resolve().parents[2]
NICENESS = min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19)


def run_with(policy: int, call: str) -> Scheduling:
    """How a process is scheduled that began with this policy and made this call."""
    command = [sys.executable, "-c", PROGRAM, str(policy), call]
    environment = os.environ | {"PYTHONPATH": f"{TESTS.parent}:{TESTS}"}
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    return Scheduling(*map(int, printed.split()))


@pytest.mark.parametrize(("call", "slice_ns"), [("take_long_slices", 100_000_000), ("take_short_slices", 100_000)])
def test_slices_are_requested_and_the_niceness_kept(call: str, slice_ns: int) -> None:
    assert run_with(os.SCHED_OTHER, call) == (os.SCHED_OTHER, NICENESS, slice_ns if HAS_SLICES else 0)


def test_policy_that_an_administrator_chose_is_kept() -> None:
    assert run_with(os.SCHED_IDLE, "take_long_slices")[:2] == (os.SCHED_IDLE, NICENESS)
