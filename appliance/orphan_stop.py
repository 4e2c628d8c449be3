"""OrphanStopOrder: the order in which roles stop after the supervisor has died.

The kernel then tells all roles at once to stop. If flush ended first, what the broker has just appended would never become durable, and clients would
wait in vain for their answers. So a role that has work to finish waits for the end of the processes before it, which it finds in the health page, for a
limited time.
"""

import os
import select

from ipc.health_page import HealthPage
from ipc.health_row import monotonic_ms


class OrphanStopOrder:
    """Whether a role that was told to stop may end: at once while the supervisor lives, which keeps the order itself."""

    def __init__(self, health: HealthPage, outlives: tuple[str, ...], supervisor_pid: int, most_ms: int) -> None:
        """`outlives`: the roles whose end is awaited, `most_ms` at most."""
        self._health = health
        self._outlives = outlives
        self._supervisor_pid = supervisor_pid
        self._most_ms = most_ms
        self._deadline_ms: int | None = None

    def may_stop(self) -> bool:
        """For `RoleContext`."""
        if not self._outlives or os.getppid() == self._supervisor_pid:
            return True
        if self._deadline_ms is None:
            self._deadline_ms = monotonic_ms() + self._most_ms
        if monotonic_ms() >= self._deadline_ms:
            return True
        health = self._health.read()
        return not any(is_alive(health[name].pid) for name in self._outlives if name in health)


def is_alive(pid: int) -> bool:
    """Whether a process is alive; a zombie is not."""
    if pid <= 0:
        return False
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        return not select.select([descriptor], [], [], 0)[0]
    finally:
        os.close(descriptor)
