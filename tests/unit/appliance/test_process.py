"""Settings of a process in the operating system."""

import platform
import subprocess
import sys

# sched_getattr: Python has no call for it.
PROGRAM = """
import ctypes, os, struct
from appliance.process import take_long_slices
os.nice(5)
take_long_slices()
layout = struct.Struct("=IIQiIQQQII")
found = ctypes.create_string_buffer(layout.size)
number = {"x86_64": 315, "aarch64": 275}[os.uname().machine]
assert ctypes.CDLL(None).syscall(number, 0, found, layout.size, 0) == 0
_, policy, _, niceness, _, slice_ns, *_ = layout.unpack(found.raw)
print(policy, niceness, slice_ns)
"""


def test_long_slices_are_requested_and_the_niceness_kept() -> None:
    printed = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, check=True).stdout
    major, minor = map(int, platform.release().split(".")[:2])
    slice_ns = 100_000_000 if (major, minor) >= (6, 12) else 0
    assert printed.split() == ["0", "5", str(slice_ns)]
