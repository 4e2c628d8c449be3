"""How the kernel schedules a process: `sched_getattr`, for which Python has no call."""

import ctypes
import os
import platform
import struct
from typing import Final, NamedTuple

HAS_SLICES: Final = tuple(map(int, platform.release().split(".")[:2])) >= (6, 12)
"""Whether this kernel lets a process ask for the length of its time slices."""

_LAYOUT: Final = struct.Struct("=IIQiIQQQII")
_NUMBERS: Final = {"x86_64": 315, "aarch64": 275}


class Scheduling(NamedTuple):
    """The attributes of a process."""

    policy: int
    niceness: int
    slice_ns: int


def scheduling_of(pid: int) -> Scheduling:
    """The attributes of a process, 0 for this one. Raises OSError."""
    found = ctypes.create_string_buffer(_LAYOUT.size)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_NUMBERS[os.uname().machine], pid, found, _LAYOUT.size, 0) != 0:
        raise OSError(ctypes.get_errno(), "sched_getattr")
    _, policy, _, niceness, _, slice_ns, *_ = _LAYOUT.unpack(found.raw)
    return Scheduling(policy, niceness, slice_ns)
