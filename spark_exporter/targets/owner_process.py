"""Identifies the process that owns a target, so that its death can be detected on the same machine and in the same container."""

import os
import socket
from pathlib import Path
from typing import Any, Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_DEAD_STATES: Final = frozenset("ZXx")


def describe_this_process() -> dict[str, Any]:
    """A description of this process, to be stored in a lock."""
    return {**_here(), "pid": os.getpid(), "started": _start_of(os.getpid())}


def is_surely_dead(owner: dict[str, Any]) -> bool:
    """Whether the described process has ended. False if that cannot be determined: on another machine, in another container, after a reboot."""
    here = _here()
    if any(owner.get(name) != value for name, value in here.items()):
        return False
    started = _start_of(int(owner["pid"]))
    return started is None or started != owner.get("started")


def _here() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "boot": _BOOT_ID.read_text(encoding="ascii").strip(),
        # Containers on one machine share the boot id, but have their own process ids.
        "pid_namespace": os.readlink("/proc/self/ns/pid"),
    }


def _start_of(pid: int) -> int | None:
    """When a process was started, in ticks since boot; None if it does not exist or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()  # the name before it may contain any character
    return None if state in _DEAD_STATES else int(fields[18])
