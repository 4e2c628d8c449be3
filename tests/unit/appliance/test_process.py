"""Settings of a process in the operating system."""

import os
import platform
import subprocess
import sys

# sched_getattr: Python has no call for it.
PROGRAM = """
import ctypes, os, struct, sys
from appliance.process import take_long_slices
os.sched_setscheduler(0, int(sys.argv[1]), os.sched_param(0))
os.nice(5)
take_long_slices()
layout = struct.Struct("=IIQiIQQQII")
found = ctypes.create_string_buffer(layout.size)
number = {"x86_64": 315, "aarch64": 275}[os.uname().machine]
assert ctypes.CDLL(None).syscall(number, 0, found, layout.size, 0) == 0
_, policy, _, niceness, _, slice_ns, *_ = layout.unpack(found.raw)
print(policy, niceness, slice_ns)
"""


NICENESS = min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19)


def run_with(policy: int) -> list[int]:
    """The scheduling policy, the niceness and the slice of a process that asked for long slices."""
    command = [sys.executable, "-c", PROGRAM, str(policy)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [int(number) for number in printed.split()]


def test_long_slices_are_requested_and_the_niceness_kept() -> None:
    major, minor = map(int, platform.release().split(".")[:2])
    assert run_with(os.SCHED_OTHER) == [os.SCHED_OTHER, NICENESS, 100_000_000 if (major, minor) >= (6, 12) else 0]


def test_policy_that_an_administrator_chose_is_kept() -> None:
    policy, niceness, _ = run_with(os.SCHED_IDLE)
    assert (policy, niceness) == (os.SCHED_IDLE, NICENESS)
