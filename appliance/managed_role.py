"""ManagedRole: one role under supervision: its process, its phase, and how its last process ended.

`role_supervisor` decides; this file carries it out: fork, stop, SIGABRT, SIGKILL, wait. A role is forked again only after its
predecessor has been waited for, so a role never has two processes.
"""

import enum
import os
import signal
from typing import Generic

from msgspec import Struct

from appliance import exit_code
from appliance.child import Child, Inheritance, fork_role
from appliance.health_watch import Verdict, judge
from appliance.role import C, Role, S
from appliance.signal_pipe import STOP_ROLE
from ipc.health_page import RoleHealth
from ipc.health_row import monotonic_ms


class Phase(enum.Enum):
    """The phase of a role, as shown by `headrace status`."""

    WAITING = "waiting"  # will be started after its back-off
    PREPARING = "preparing"  # forked, waits at its gate for other roles
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"  # stays down until an operator starts it
    ENDED = "ended"  # ran once, ended well


class End(Struct, frozen=True):
    """How a process ended. `code` is negative for a signal, as in Python's own libraries.

    `lived_ms` counts from its start, `served_ms` from when it was ready, 0 if it never was. `client` is the address whose
    request it was handling, empty if there is none.
    """

    code: int
    reason: str
    lived_ms: int
    was_asked: bool
    served_ms: int = 0
    client: str = ""

    @property
    def was_killed(self) -> bool:
        """Whether it was ended by a SIGKILL that the supervisor did not send."""
        return self.code == -signal.SIGKILL

    @property
    def could_not_start(self) -> bool:
        """Whether it reported that it cannot start."""
        return self.code == exit_code.COULD_NOT_START

    def __str__(self) -> str:
        """For people: the reason if there is one, else the code or the name of the signal."""
        how = f"killed by {_signal_name(-self.code)}" if self.code < 0 else f"exited with code {self.code}"
        return f"{how} ({self.reason})" if self.reason else how


class ManagedRole(Generic[C, S]):
    """The supervisor's record of one role. `name` is the name used by operators, with its broker if there are several."""

    def __init__(self, role: Role[C, S], name: str, inheritance: Inheritance[C]) -> None:
        self.role = role
        self.name = name
        self.phase = Phase.WAITING
        self.has_run = False
        """Whether it has ever been running, or has ended well: the condition for which later roles wait. Never reset."""
        self.starts_from_ms = 0
        self.consecutive_early_exits = 0
        self.is_to_start_again = False
        self.ended_badly = False
        """Whether its last process did not end with 0 after it was stopped."""
        self.problem = ""
        """Why its last process could not start; empty once it is running."""
        self._inheritance = inheritance
        self._health = inheritance.pages.health
        self._row = self._health.supervised_row(role.name)
        self._child: Child | None = None
        self._began_ms = 0
        self._ready_at_ms: int | None = None
        self._stop_by_ms = 0
        self._aborted_at_ms: int | None = None

    @property
    def pid(self) -> int | None:
        """The pid of its process; None if there is none."""
        return self._child.pid if self._child else None

    def fork(self, settings: S) -> None:
        """Fork its process, which waits at its gate. Raises OSError if the system has no room for it, ProgramReplaced."""
        self._row.starting()
        self._began_ms = monotonic_ms()
        self._ready_at_ms = None
        self._aborted_at_ms = None
        self._child = fork_role(self.role, self.name, settings, self._inheritance)
        self._row.forked(self._child.pid)
        self.phase = Phase.PREPARING

    def release(self) -> None:
        """Let its process begin its work."""
        if self._child is not None:
            self._began_ms = monotonic_ms()
            self._child.release()
            self.phase = Phase.STARTING

    def became_ready(self) -> None:
        """Note that it is running."""
        self._ready_at_ms = monotonic_ms()
        self.phase = Phase.RUNNING
        self.problem = ""
        if not self.role.runs_once:
            self.has_run = True

    @property
    def client(self) -> str:
        """The client whose request it handles, empty if there is none. Also valid for a role that hangs or has died."""
        return self._health.read_client(self.role.name)

    def tell_to_stop(self, now_ms: int, timeout_ms: int) -> None:
        """Send `STOP_ROLE` (SIGKILL to an expendable one); after `timeout_ms` it is killed."""
        if self._child is None:
            self.phase = Phase.STOPPED
            return
        if self.phase is not Phase.STOPPING:
            self.phase = Phase.STOPPING
            self._stop_by_ms = now_ms + timeout_ms
            os.kill(self._child.pid, signal.SIGKILL if self.role.is_expendable else STOP_ROLE)

    def abort(self, now_ms: int) -> None:
        """Make it write its stacks and end (SIGABRT); `RoleSupervisor._watch` kills it if it does not."""
        if self._child is not None:
            self._aborted_at_ms = now_ms
            os.kill(self._child.pid, signal.SIGABRT)

    @property
    def is_aborted(self) -> bool:
        """Whether its process was aborted and has not ended yet."""
        return self._child is not None and self._aborted_at_ms is not None

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        if self._child is not None:
            os.kill(self._child.pid, signal.SIGKILL)

    def is_late_to_stop(self, now_ms: int) -> bool:
        """Whether it was stopped but has not ended within its timeout."""
        return self.phase is Phase.STOPPING and now_ms > self._stop_by_ms and self._aborted_at_ms is None

    def judge(self, health: RoleHealth, now_ms: int, timeout_ms: int, awake_since_ms: int) -> Verdict:
        """The verdict on its heartbeats; `awake_since_ms`: the end of the supervisor's own last stall."""
        if self._child is None or self.phase is Phase.PREPARING or self.role.is_expendable:
            return Verdict.ALIVE
        return judge(
            now_ms,
            last_sign_ms=max(health.heartbeat_ms, self._began_ms, awake_since_ms),
            long_call_until_ms=health.long_call_until_ms,
            timeout_ms=timeout_ms,
            aborted_at_ms=self._aborted_at_ms,
        )

    def reap(self) -> End | None:
        """How its process ended, once; None while it lives or there is none."""
        if self._child is None:
            return None
        pid, status = os.waitpid(self._child.pid, os.WNOHANG)
        if pid == 0:
            return None
        # order: before its row is cleared. It may have died between becoming ready and this check.
        if self.phase is Phase.STARTING and self._health.read_role(self.role.name).state in {"running", "stopping"}:
            self.became_ready()
        now_ms = monotonic_ms()
        end = End(
            code=os.waitstatus_to_exitcode(status),
            reason=self._child.read_reason(),
            lived_ms=now_ms - self._began_ms,
            was_asked=self.phase is Phase.STOPPING,
            served_ms=now_ms - self._ready_at_ms if self._ready_at_ms is not None and self.has_run else 0,
            client=self.client,
        )
        self._child = None
        self.ended_badly = not self.role.is_expendable and (
            end.code != exit_code.CLEAN or not (end.was_asked or self.role.runs_once)
        )
        self._row.ended("failed" if self.ended_badly else "stopped")
        return end


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
