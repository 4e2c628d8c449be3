"""RoleSupervisor: starts, restarts and stops the roles of one table: those of one broker, or the appliance's own.

Start: all roles are forked. Each is released when the roles that it comes after have run and its condition holds.

Restart: `_on_end` is called when a role's process has ended. `restart_policy` decides from numbers whether the role is forked again, and after which back-off. A role
that has been ready is restarted for as long as it takes. A role that was never ready fails the whole set if it reports that it cannot start, or
keeps dying; the supervisor decides what follows. `health_watch` decides when a silent role is killed.

Stop: in the order of `stops`. A step begins when all roles of the step before it have ended.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic

from msgspec import Struct

from appliance import exit_code
from appliance.child import Inheritance
from appliance.errors import ApplianceError, ProgramReplaced, RoleFailedToStart, RoleGivenUp
from appliance.health_watch import Verdict
from appliance.managed_role import End, ManagedRole, Phase
from appliance.rates import RateWindow
from appliance.restart_policy import FORK_BACKOFF_MS, GiveUp, Restart, decide_restart
from appliance.role import C, Role, S, qualified_name
from appliance.state_line import RoleState
from ipc.control_block import ControlBlock
from ipc.health_page import RoleHealth

_LEVELS: Final = frozenset({"held_pulls", "connections", "connection_buffer_bytes"})
"""Counters of a current number, of which rates would be meaningless."""

logger = logging.getLogger(__name__)


class Timeouts(Struct, frozen=True):
    """Timeouts of the supervisor in milliseconds."""

    heartbeat_timeout_ms: int
    role_stop_timeout_ms: int


class RoleSupervisor(Generic[C, S]):
    """The roles of one table under supervision."""

    def __init__(
        self,
        broker: str,
        roles: Sequence[Role[C, S]],
        settings: Callable[[], S],
        inheritance: Inheritance[C],
        timeouts: Timeouts,
        control: ControlBlock | None = None,
        earlier: Mapping[str, ManagedRole[Any, Any]] | None = None,
    ) -> None:
        """`broker` is the prefix of the roles' names, unless it is empty. `settings()` is called at each start of a role.

        `control` has the offsets that roles wait for; `earlier` are roles of another set that these may wait for.
        """
        self.managed_roles = {
            role.name: ManagedRole(role, qualified_name(broker, role.name), inheritance) for role in roles
        }
        self.rates = RateWindow()
        self.is_ready = False
        self.is_stopping = False
        self.was_clean = True
        """Whether every role ended well when it was stopped; final when `is_down` after `stop`."""
        self.error: ApplianceError | None = None
        """Why the set cannot start."""
        self._pages = inheritance.pages
        self._settings = settings
        self._timeouts = timeouts
        self._control = control
        self._earlier = earlier or {}
        self._step_began_ms = 0
        self._step = -1

    @property
    def is_down(self) -> bool:
        """Whether no role has a process."""
        return not any(managed.pid for managed in self.managed_roles.values())

    @property
    def is_busy(self) -> bool:
        """Whether a role is starting or the set is stopping."""
        return (self.is_stopping and not self.is_down) or any(
            managed.phase in {Phase.WAITING, Phase.PREPARING, Phase.STARTING} and not managed.role.is_optional
            for managed in self.managed_roles.values()
        )

    @property
    def alive(self) -> list[str]:
        """The names of the roles that have a process."""
        return [managed.name for managed in self.managed_roles.values() if managed.pid]

    # ---- for requests

    def stop(self) -> None:
        """Begin to stop all roles in order."""
        if not self.is_stopping:
            self.is_stopping = True
            for managed in self.managed_roles.values():
                if managed.pid is None:
                    self._note_end(managed)
                if managed.phase is Phase.WAITING:
                    managed.phase = Phase.STOPPED

    def stop_role(self, managed: ManagedRole[C, S], now_ms: int, *, and_start: bool) -> None:
        """Stop a role, to stay down or to be restarted."""
        managed.is_to_start_again = and_start
        managed.tell_to_stop(now_ms, self._timeouts.role_stop_timeout_ms)
        if managed.phase is Phase.STOPPED and and_start:
            self.start_role(managed)

    def start_role(self, managed: ManagedRole[C, S]) -> None:
        """Start a role that is down, at once."""
        managed.phase = Phase.WAITING
        managed.starts_from_ms = 0
        managed.consecutive_early_exits = 0

    # ---- the supervisor's round

    def step(self, now_ms: int, awake_since_ms: int) -> None:
        """Handle ended processes and do the next steps. `awake_since_ms`: the end of the supervisor's last stall."""
        for managed in self.managed_roles.values():
            end = managed.reap()
            if end is not None:
                self._on_end(managed, end, now_ms)
        health = self.read_health()
        for name, managed in self.managed_roles.items():
            if managed.phase is Phase.STARTING and health[name].state in {"running", "stopping"}:
                managed.became_ready()
                logger.info("role ready role=%s pid=%s", managed.name, managed.pid)
            self._watch(managed, health[name], now_ms, awake_since_ms)
        if self.is_stopping:
            self._advance_stop(now_ms)
        elif self.error is None:
            self._advance_start(now_ms)
        if self.rates.is_due(now_ms):
            self.rates.add(now_ms, self.read_counters())

    def read_health(self) -> dict[str, RoleHealth]:
        """The health of every role, by its name in the table."""
        return self._pages.health.read()

    def read_states(self, now_ms: int, awake_since_ms: int) -> list[RoleState]:
        """What the service manager is told of each role."""
        health = self.read_health()
        return [
            RoleState(
                managed.name,
                managed.phase,
                is_silent=managed.is_aborted
                or managed.judge(health[name], now_ms, self._timeouts.heartbeat_timeout_ms, awake_since_ms)
                is not Verdict.ALIVE,
                long_call=health[name].long_call if managed.pid else None,
                is_optional=managed.role.is_optional or managed.role.is_expendable,
            )
            for name, managed in self.managed_roles.items()
        ]

    def read_role_counters(self) -> dict[str, dict[str, int]]:
        """All counters of every role, by its name in the table."""
        return self._pages.read_counters()

    def read_counters(self) -> dict[str, int]:
        """The inputs of rates: the offsets that grow, and every counter as `<role>.<counter>`."""
        counters = {}
        if self._control is not None:
            counters = {
                "wrote_bytes": self._control.wrote_offset,
                "flushed_bytes": self._control.flushed_offset,
                "reput_bytes": self._control.reput_offset,
            }
        for role, values in self.read_role_counters().items():
            counters.update((f"{role}.{name}", value) for name, value in values.items() if name not in _LEVELS)
        return counters

    # ---- one role

    def _on_end(self, managed: ManagedRole[C, S], end: End, now_ms: int) -> None:
        _log_end(managed, end)
        for other in self.managed_roles.values():
            if other.role.ends_with == managed.role.name and other.phase in {Phase.STARTING, Phase.RUNNING}:
                self.stop_role(other, now_ms, and_start=True)
        if end.was_asked or self.is_stopping:
            managed.phase = Phase.STOPPED
            if self.is_stopping:
                self._note_end(managed)
            elif managed.is_to_start_again:
                self.start_role(managed)
        elif managed.role.runs_once and end.code == exit_code.CLEAN:
            managed.phase = Phase.ENDED
            managed.has_run = True
            if managed.role.afterwards is not None:
                try:
                    managed.role.afterwards(self._settings())
                except OSError as error:
                    problem = f"{error.filename}: {error.strerror}"
                    self._fail(
                        managed, RoleFailedToStart(f"cannot continue starting after role {managed.name}: {problem}")
                    )
        else:
            self._restart_or_fail(managed, end, now_ms)

    def _restart_or_fail(self, managed: ManagedRole[C, S], end: End, now_ms: int) -> None:
        # Foreign code can exit with any code; a reason is given only before it begins.
        if managed.role.is_expendable and end.could_not_start and end.reason:
            logger.error("role disabled role=%s error=%r", managed.name, end.reason)
            managed.phase = Phase.STOPPED
            return
        if end.could_not_start and managed.role.is_optional:
            if managed.problem != end.reason:
                logger.warning("role could not start role=%s error=%r action='retry'", managed.name, end.reason)
            managed.problem = end.reason
        elif end.could_not_start and not managed.has_run:
            managed.ended_badly = False  # it had not begun
            self._fail(managed, RoleFailedToStart(f"{managed.name} could not start: {end.reason or end}"))
            return
        decision = decide_restart(
            served_ms=end.served_ms,
            early_exits_before=managed.consecutive_early_exits,
            was_killed=end.was_killed,
            was_ever_ready=managed.has_run or managed.role.is_optional,
            is_expendable=managed.role.is_expendable,
        )
        match decision:
            case Restart(backoff_ms, consecutive_early_exits):
                logger.log(
                    logging.INFO if managed.problem else logging.WARNING,
                    "role restart scheduled role=%s early_exits=%d backoff_ms=%d",
                    managed.name,
                    consecutive_early_exits,
                    backoff_ms,
                )
                managed.consecutive_early_exits = consecutive_early_exits
                managed.phase = Phase.WAITING
                managed.starts_from_ms = now_ms + backoff_ms
            case GiveUp(consecutive_early_exits):
                self._fail(
                    managed,
                    RoleGivenUp(
                        f"{managed.name} crashed {consecutive_early_exits} times before it became ready (last: {end}); see logs/headrace.log"
                    ),
                )

    def _note_end(self, managed: ManagedRole[C, S]) -> None:
        """How a role ended that was stopped, for whether the stop is clean."""
        self.was_clean = self.was_clean and (managed.role.is_optional or not managed.ended_badly)

    def _fail(self, managed: ManagedRole[C, S], error: ApplianceError) -> None:
        managed.phase = Phase.STOPPED
        self.error = self.error or error

    def _watch(self, managed: ManagedRole[C, S], health: RoleHealth, now_ms: int, awake_since_ms: int) -> None:
        if managed.is_late_to_stop(now_ms):
            logger.error("role stop timed out role=%s timeout_ms=%d", managed.name, self._timeouts.role_stop_timeout_ms)
            managed.abort(now_ms)
        match managed.judge(health, now_ms, self._timeouts.heartbeat_timeout_ms, awake_since_ms):
            case Verdict.DUMP_STACKS:
                logger.error(
                    "role heartbeat timed out role=%s silent_ms=%d pid=%s%s action='dump stacks to logs/stacks.log, then kill'",
                    managed.name,
                    now_ms - health.heartbeat_ms,
                    managed.pid,
                    _about_client(managed.client),
                )
                managed.abort(now_ms)
            case Verdict.KILL:
                managed.kill()
            case Verdict.ALIVE:
                pass

    # ---- all of them

    def _advance_start(self, now_ms: int) -> None:
        for managed in self.managed_roles.values():
            if managed.phase is Phase.PREPARING and self._may_begin(managed):
                managed.release()
            if managed.phase is Phase.WAITING and now_ms >= managed.starts_from_ms:
                try:
                    managed.fork(self._settings())
                except ProgramReplaced as error:
                    self._fail(managed, error)
                    return
                except OSError as error:
                    if managed.role.is_expendable or managed.role.is_optional or managed.has_run:
                        logger.warning(
                            "role fork failed role=%s error=%r backoff_ms=%d",
                            managed.name,
                            error.strerror,
                            FORK_BACKOFF_MS,
                        )
                        managed.starts_from_ms = now_ms + FORK_BACKOFF_MS
                        continue
                    self._fail(managed, RoleFailedToStart(f"{managed.name}: fork failed: {error.strerror}"))
                    return
        # A role that was ready and died at once has `has_run`, though no round may have found it running.
        self.is_ready = self.is_ready or all(
            managed.has_run or managed.phase is Phase.STOPPED or managed.role.is_expendable or managed.role.is_optional
            for managed in self.managed_roles.values()
        )

    def _may_begin(self, managed: ManagedRole[C, S]) -> bool:
        before = (self.managed_roles.get(name) or self._earlier[name] for name in managed.role.after)
        return all(other.has_run for other in before) and (
            self._control is None or managed.role.starts_when(self._control)
        )

    def _advance_stop(self, now_ms: int) -> None:
        """Stop the roles of the current step; the next step begins when all of these have ended."""
        alive = [managed for managed in self.managed_roles.values() if managed.pid]
        step = min((managed.role.stops for managed in alive), default=-1)
        if step != self._step:
            self._step, self._step_began_ms = step, now_ms
        is_overdue = now_ms - self._step_began_ms > self._timeouts.role_stop_timeout_ms
        for managed in alive:
            if managed.role.stops != step or managed.phase is Phase.STOPPING:
                continue
            if self._control is None or managed.role.stops_when(self._control) or is_overdue:
                managed.tell_to_stop(now_ms, self._timeouts.role_stop_timeout_ms)


def _log_end(managed: ManagedRole[C, S], end: End) -> None:
    is_expected = end.code in {exit_code.CLEAN, exit_code.COULD_NOT_START} or (
        managed.role.is_expendable and end.was_asked
    )
    if is_expected and not (end.could_not_start and managed.has_run):
        # If a role was never ready and reports why, the start command prints the reason.
        logger.info("role exited role=%s cause=%r uptime_ms=%d", managed.name, str(end), end.lived_ms)
    else:
        logger.warning(
            "role died role=%s cause=%r uptime_ms=%d%s", managed.name, str(end), end.lived_ms, _about_client(end.client)
        )


def _about_client(client: str) -> str:
    return f" client={client}" if client else ""
