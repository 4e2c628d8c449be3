"""Appliances whose status is asked for again and again, while somebody waits for something.

What `headrace status --json` prints comes from the supervisor's socket, and is taken from there: the command is mostly the start of
Python, and two cores that start one after the other have time for little else. What the command itself prints, others test.
"""

from pathlib import Path
from typing import Any

from ipc.control_socket import ask
from support.appliance import Appliance
from support.headrace_process import HeadraceProcess
from support.servers import wait_until

PATIENCE_S = 60.0


class WatchedAppliance(Appliance):
    """As `Appliance`; to be asked costs nothing."""

    def status(self) -> dict[str, Any]:
        """What the supervisor says. Raises the errors of `ipc.control_socket` when it says nothing."""
        return _status(self.data)

    def wait_restarted(self, role: str, old_pid: int, deadline_s: float = 60) -> int:
        """Waits until a role runs as another process than `old_pid`, and says so; its new pid."""

        def runs_anew() -> bool:
            said = self.status()["roles"][role]
            return said["state"] == "running" and said["pid"] not in (None, old_pid)

        wait_until(runs_anew, deadline_s, f"{role} restarted after pid {old_pid}")
        return self.pid_of(role)


class WatchedProcess(HeadraceProcess):
    """As `HeadraceProcess`; to be asked costs nothing."""

    def status(self) -> dict[str, Any]:
        """What the supervisor says. Raises the errors of `ipc.control_socket` when it says nothing."""
        return _status(self.data)


def _status(data: Path) -> dict[str, Any]:
    said: dict[str, Any] = ask(data / "control.sock", {"command": "status"}, PATIENCE_S)["status"]
    return said
