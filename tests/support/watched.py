"""Appliances whose status is queried often while a test waits for something.

The status comes directly from the supervisor's socket, as for `headrace status --json`. Starting Python for the command
takes most of its time, and repeated starts would keep two cores busy. Other tests check the command's output.
"""

from pathlib import Path
from typing import Any

from ipc.control_socket import ask
from support.appliance import Appliance
from support.headrace_process import HeadraceProcess
from support.servers import wait_until

PATIENCE_S = 60.0


class WatchedAppliance(Appliance):
    """Like `Appliance`, with a cheap status query."""

    def status(self) -> dict[str, Any]:
        """The supervisor's answer. Raises the errors of `ipc.control_socket` if there is none."""
        return _status(self.data)

    def wait_restarted(self, role: str, old_pid: int, deadline_s: float = 60) -> int:
        """Waits until a role runs in a process other than `old_pid` and reports so; returns its pid."""

        def runs_anew() -> bool:
            said = self.status()["roles"][role]
            return said["state"] == "running" and said["pid"] not in (None, old_pid)

        wait_until(runs_anew, deadline_s, f"{role} restarted after pid {old_pid}")
        return self.pid_of(role)


class WatchedProcess(HeadraceProcess):
    """Like `HeadraceProcess`, with a cheap status query."""

    def status(self) -> dict[str, Any]:
        """The supervisor's answer. Raises the errors of `ipc.control_socket` if there is none."""
        return _status(self.data)


def _status(data: Path) -> dict[str, Any]:
    said: dict[str, Any] = ask(data / "control.sock", {"command": "status"}, PATIENCE_S)["status"]
    return said
