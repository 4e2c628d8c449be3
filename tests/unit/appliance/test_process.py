"""Settings of a process in the operating system."""

import os
import platform
import subprocess
import sys

import pytest

# sched_getattr: Python has no call for it.
PROGRAM = """
import ctypes, os, struct, sys
from appliance import process
os.sched_setscheduler(0, int(sys.argv[1]), os.sched_param(0))
os.nice(5)
getattr(process, sys.argv[2])()
layout = struct.Struct("=IIQiIQQQII")
found = ctypes.create_string_buffer(layout.size)
number = {"x86_64": 315, "aarch64": 275}[os.uname().machine]
assert ctypes.CDLL(None).syscall(number, 0, found, layout.size, 0) == 0
_, policy, _, niceness, _, slice_ns, *_ = layout.unpack(found.raw)
print(policy, niceness, slice_ns)
"""


NICENESS = min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19)


def run_with(policy: int, call: str) -> list[int]:
    """The scheduling policy, the niceness and the slice of a process that made this call."""
    command = [sys.executable, "-c", PROGRAM, str(policy), call]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [int(number) for number in printed.split()]


@pytest.mark.parametrize(("call", "slice_ns"), [("take_long_slices", 100_000_000), ("take_short_slices", 100_000)])
def test_slices_are_requested_and_the_niceness_kept(call: str, slice_ns: int) -> None:
    major, minor = map(int, platform.release().split(".")[:2])
    assert run_with(os.SCHED_OTHER, call) == [os.SCHED_OTHER, NICENESS, slice_ns if (major, minor) >= (6, 12) else 0]


def test_policy_that_an_administrator_chose_is_kept() -> None:
    policy, niceness, _ = run_with(os.SCHED_IDLE, "take_long_slices")
    assert (policy, niceness) == (os.SCHED_IDLE, NICENESS)
