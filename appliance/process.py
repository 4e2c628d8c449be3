"""Settings of a process in the operating system: limits, allocator, signal at the parent's death, title.

Plain calls, through ctypes if Python has none. No policy.
"""

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from typing import Final

import setproctitle

_PR_SET_PDEATHSIG: Final = 1
_UMASK: Final = 0o027
_FILE_MODE: Final = 0o640
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_THRESHOLD_BYTES: Final = 64 << 20
_TRIM_THRESHOLD_BYTES: Final = 256 << 20
_SYS_SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274}
_SCHED_ATTR: Final = struct.Struct("=IIQiIQQQII")
_LONG_SLICE_NS: Final = 100_000_000  # the longest that Linux accepts
_SHORT_SLICE_NS: Final = 100_000  # the shortest
_WANTED_OPEN_FILES: Final = 655_350  # limit: as set by RocketMQ's start scripts

_libc = ctypes.CDLL(None, use_errno=True)


def fill_standard_streams() -> None:
    """Open descriptors 0, 1 and 2 if they are closed; otherwise output would be written into the next opened file."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def hide_files_from_others() -> None:
    """Make new files and folders inaccessible to others and read-only for the group. Inherited by children."""
    os.umask(os.umask(_UMASK) | _UMASK)


def open_own_file(path: str, flags: int) -> int:
    """Open one of our files for writing, never through a symbolic link, with mode 0640 even if it existed before. Raises OSError."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)
    with contextlib.suppress(PermissionError):  # owned by another user who permits writing
        os.fchmod(fd, _FILE_MODE)
    return fd


def set_title(role: str) -> None:
    """Set the title of the process to its role."""
    setproctitle.setproctitle(f"headrace: {role}")


def end_with_parent(parent_pid: int, number: signal.Signals) -> None:
    """Request this signal at the parent's death; send it at once if the parent has already died.

    # order: the request before the check, otherwise a death in between is missed.
    """
    if _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), number)


def take_long_slices() -> None:
    """Request long time slices of the processor: a process that wakes with a shorter slice, such as a broker, then runs at once instead of after up to 3 ms."""
    _take_slices(_LONG_SLICE_NS)


def take_short_slices() -> None:
    """Request short time slices of the processor: it then runs at once when it wakes, also while others run. For a process that soon sleeps again."""
    _take_slices(_SHORT_SLICE_NS)


def _take_slices(slice_ns: int) -> None:
    """Request time slices at the present niceness. Linux before 6.12 ignores it; a refusal changes nothing else.

    A process that an administrator has made a batch, idle or real-time process is left alone.
    """
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_OTHER, 0, niceness, 0, slice_ns, 0, 0, 0, 0)
    _libc.syscall(_SYS_SCHED_SETATTR.get(os.uname().machine, -1), 0, attributes, 0)


def keep_large_blocks() -> None:
    """Let glibc reuse blocks of up to 64 MiB instead of mapping and unmapping each.

    Blocks over 128 KiB would otherwise cost a page fault a page, each time; a receive buffer is of that size. Inherited
    over fork. Another C library has no mallopt and no such habit.
    """
    with contextlib.suppress(AttributeError):
        _libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
        _libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)


def raise_open_files_limit() -> int:
    """Raise the limit of open files as far as permitted; returns the new limit. Inherited by children."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _WANTED_OPEN_FILES:
        with contextlib.suppress(OSError, ValueError):  # only root may
            resource.setrlimit(resource.RLIMIT_NOFILE, (_WANTED_OPEN_FILES, _WANTED_OPEN_FILES))
            return _WANTED_OPEN_FILES
    wanted = _WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
