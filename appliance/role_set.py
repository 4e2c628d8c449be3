"""Roles that start and stop together: those of one broker, or the appliance's own.

Starting: all are forked, and each is let go as soon as those it comes after have run and its condition holds. Stopping: by the
order of `stops`, each step when the one before is over. A role that was never ready and reports that it cannot start, or keeps dying, is the
failure of the whole set, and what to do about that is the supervisor's decision. A role that has been ready is restarted for as long
as it takes.

What to do about a death or a silence is decided by `restart_policy` and `health_watch` from numbers.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic

from appliance import exit_code
from appliance.child import Inheritance
from appliance.errors import ApplianceError, RoleFailedToStart, RoleGivenUp
from appliance.health_watch import Verdict
from appliance.rates import RateWindow
from appliance.restart_policy import FORK_BACKOFF_MS, GiveUp, Restart, decide_restart
from appliance.role import C, Role, S, qualified_name
from appliance.role_life import End, ManagedRole, Phase
from ipc.control_block import ControlBlock
from ipc.health_page import RoleHealth

_LEVELS: Final = frozenset({"held_pulls", "connections"})
"""Counters of what there is now; how fast these change is of no use to anybody."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the supervisor waits before it acts. Milliseconds."""

    heartbeat_timeout_ms: int
    role_stop_timeout_ms: int


class RoleSet(Generic[C, S]):
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
        """`broker` stands before the roles' names, unless it is empty. `settings()` is called at each start of a role.

        `control` has the offsets that roles wait for; `earlier` are roles of another set that these may wait for.
        """
        self.lives = {role.name: ManagedRole(role, qualified_name(broker, role.name), inheritance) for role in roles}
        self.rates = RateWindow()
        self.is_ready = False
        self.is_stopping = False
        self.was_clean = True
        """Whether every role ended well when it was told to; final when `is_down` after `stop`."""
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
        return not any(life.pid for life in self.lives.values())

    @property
    def is_busy(self) -> bool:
        """Whether a role is on its way up, or the set on its way down."""
        return (self.is_stopping and not self.is_down) or any(
            life.phase in {Phase.WAITING, Phase.PREPARING, Phase.STARTING} for life in self.lives.values()
        )

    @property
    def alive(self) -> list[str]:
        """The names of the roles that have a process."""
        return [life.name for life in self.lives.values() if life.pid]

    # ---- for requests

    def stop(self) -> None:
        """Begin to stop all roles, in their order."""
        if not self.is_stopping:
            self.is_stopping = True
            for life in self.lives.values():
                if life.pid is None:
                    self.was_clean = self.was_clean and not life.ended_badly
                if life.phase is Phase.WAITING:
                    life.phase = Phase.STOPPED

    def stop_role(self, life: ManagedRole[C, S], now_ms: int, *, and_start: bool) -> None:
        """Tell a role to stop, to stay down or to be started again."""
        life.is_to_start_again = and_start
        life.tell_to_stop(now_ms, self._timeouts.role_stop_timeout_ms)
        if life.phase is Phase.STOPPED and and_start:
            self.start_role(life)

    def start_role(self, life: ManagedRole[C, S]) -> None:
        """Let a role that is down be started again, at once."""
        life.phase = Phase.WAITING
        life.starts_from_ms = 0
        life.short_lives = 0

    # ---- the supervisor's round

    def step(self, now_ms: int, awake_since_ms: int) -> None:
        """Notice what has happened, and do what is next. `awake_since_ms`: when the supervisor last came back from a stall."""
        for life in self.lives.values():
            end = life.reap()
            if end is not None:
                self._on_end(life, end, now_ms)
        health = self.read_health()
        for name, life in self.lives.items():
            if life.phase is Phase.STARTING and health[name].state in {"running", "stopping"}:
                life.became_ready()
                logger.info("role ready role=%s pid=%s", life.name, life.pid)
            self._watch(life, health[name], now_ms, awake_since_ms)
        if self.is_stopping:
            self._advance_stop(now_ms)
        elif self.error is None:
            self._advance_start(now_ms)
        if self.rates.is_due(now_ms):
            self.rates.add(now_ms, self.read_counters())

    def read_health(self) -> dict[str, RoleHealth]:
        """The health of every role, by its name in the table."""
        return self._pages.health.read()

    def read_role_counters(self) -> dict[str, dict[str, int]]:
        """All counters of every role, by its name in the table."""
        return self._pages.read_counters()

    def read_counters(self) -> dict[str, int]:
        """What rates are made of: the offsets that grow, and every counter as `<role>.<counter>`."""
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

    def _on_end(self, life: ManagedRole[C, S], end: End, now_ms: int) -> None:
        _log_end(life, end)
        for other in self.lives.values():
            if other.role.ends_with == life.role.name and other.phase in {Phase.STARTING, Phase.RUNNING}:
                self.stop_role(other, now_ms, and_start=True)
        if end.was_asked or self.is_stopping:
            life.phase = Phase.STOPPED
            if self.is_stopping:
                self.was_clean = self.was_clean and not life.ended_badly
            elif life.is_to_start_again:
                self.start_role(life)
        elif life.role.runs_once and end.code == exit_code.CLEAN:
            life.phase = Phase.ENDED
            life.has_run = True
            if life.role.afterwards is not None:
                try:
                    life.role.afterwards(self._settings())
                except OSError as error:
                    self._fail(life, RoleFailedToStart(f"after {life.name}: {error.filename}: {error.strerror}"))
        else:
            self._restart_or_fail(life, end, now_ms)

    def _restart_or_fail(self, life: ManagedRole[C, S], end: End, now_ms: int) -> None:
        # Foreign code can end with any code; a reason is given only before it begins.
        if life.role.is_expendable and end.could_not_start and end.reason:
            logger.error("role disabled role=%s reason=%r", life.name, end.reason)
            life.phase = Phase.STOPPED
            return
        if end.could_not_start and not life.has_run:
            life.ended_badly = False  # it had not begun
            self._fail(life, RoleFailedToStart(f"{life.name} could not start: {end.reason or end}"))
            return
        decision = decide_restart(
            served_ms=end.served_ms,
            short_lives_before=life.short_lives,
            was_killed=end.was_killed,
            was_ever_ready=life.has_run,
            is_expendable=life.role.is_expendable,
        )
        match decision:
            case Restart(backoff_ms, short_lives):
                logger.warning(
                    "role restart scheduled role=%s deaths=%d backoff_ms=%d", life.name, short_lives, backoff_ms
                )
                life.short_lives = short_lives
                life.phase = Phase.WAITING
                life.starts_from_ms = now_ms + backoff_ms
            case GiveUp(short_lives):
                self._fail(life, RoleGivenUp(f"{life.name} died {short_lives} times before it was ready: {end}"))

    def _fail(self, life: ManagedRole[C, S], error: ApplianceError) -> None:
        life.phase = Phase.STOPPED
        self.error = self.error or error

    def _watch(self, life: ManagedRole[C, S], health: RoleHealth, now_ms: int, awake_since_ms: int) -> None:
        if life.is_late_to_stop(now_ms):
            logger.error("role stop timed out role=%s timeout_ms=%d", life.name, self._timeouts.role_stop_timeout_ms)
            life.abort(now_ms)
        match life.judge(health, now_ms, self._timeouts.heartbeat_timeout_ms, awake_since_ms):
            case Verdict.DUMP_STACKS:
                logger.error(
                    "role silent role=%s silent_ms=%d pid=%s%s action='dump stacks to logs/stacks.log and kill'",
                    life.name,
                    now_ms - health.heartbeat_ms,
                    life.pid,
                    _about_client(life.client),
                )
                life.abort(now_ms)
            case Verdict.KILL:
                life.kill()
            case Verdict.ALIVE:
                pass

    # ---- all of them

    def _advance_start(self, now_ms: int) -> None:
        for life in self.lives.values():
            if life.phase is Phase.PREPARING and self._may_begin(life):
                life.let_go()
            if life.phase is Phase.WAITING and now_ms >= life.starts_from_ms:
                try:
                    life.fork(self._settings())
                except OSError as error:
                    if life.role.is_expendable or life.has_run:
                        logger.warning(
                            "role fork failed role=%s error=%r backoff_ms=%d",
                            life.name,
                            error.strerror,
                            FORK_BACKOFF_MS,
                        )
                        life.starts_from_ms = now_ms + FORK_BACKOFF_MS
                        continue
                    self._fail(life, RoleFailedToStart(f"{life.name}: fork failed: {error.strerror}"))
                    return
        self.is_ready = self.is_ready or all(
            life.phase in {Phase.RUNNING, Phase.ENDED, Phase.STOPPED} or life.role.is_expendable
            for life in self.lives.values()
        )

    def _may_begin(self, life: ManagedRole[C, S]) -> bool:
        before = (self.lives.get(name) or self._earlier[name] for name in life.role.after)
        return all(other.has_run for other in before) and (
            self._control is None or life.role.starts_when(self._control)
        )

    def _advance_stop(self, now_ms: int) -> None:
        """Tell those whose turn it is; the next turn comes when all of these are gone."""
        alive = [life for life in self.lives.values() if life.pid]
        step = min((life.role.stops for life in alive), default=-1)
        if step != self._step:
            self._step, self._step_began_ms = step, now_ms
        is_overdue = now_ms - self._step_began_ms > self._timeouts.role_stop_timeout_ms
        for life in alive:
            if life.role.stops != step or life.phase is Phase.STOPPING:
                continue
            if self._control is None or life.role.stops_when(self._control) or is_overdue:
                life.tell_to_stop(now_ms, self._timeouts.role_stop_timeout_ms)


def _log_end(life: ManagedRole[C, S], end: End) -> None:
    is_expected = end.code in {exit_code.CLEAN, exit_code.COULD_NOT_START} or (
        life.role.is_expendable and end.was_asked
    )
    if is_expected and not (end.could_not_start and life.has_run):
        # One that never was ready and reports why is announced by whoever started the appliance, in one line.
        logger.info("role ended role=%s how=%r lived_ms=%d", life.name, str(end), end.lived_ms)
    else:
        logger.warning(
            "role died role=%s how=%r lived_ms=%d%s", life.name, str(end), end.lived_ms, _about_client(end.client)
        )


def _about_client(client: str) -> str:
    return f" client={client}" if client else ""
