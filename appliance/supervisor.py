"""The supervisor's loop: signals, ends of children, signs of life, requests, and one step after the other.

No threads, no event loop, nothing that blocks. Signal handlers put a byte into a pipe; the loop acts. It knows roles as rows
of a table and nothing of what they do; what to do is decided by `restart_policy` and `health_watch` from numbers.

Starting: all are forked, and each is let go as soon as those it comes after have run and its condition holds. Stopping: by the order of `stops`, each
step when the one before is over. A role that was never ready and says that it cannot start, or keeps dying, ends the
appliance, in the same order. One that has been ready is started again for as long as it takes.
"""

import logging
import selectors
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from appliance import exit_code
from appliance.child import Inheritance
from appliance.errors import ApplianceError, RoleFailedToStart, RoleGivenUp
from appliance.health_watch import Verdict
from appliance.rates import RateWindow
from appliance.restart_policy import FORK_BACKOFF_MS, GiveUp, Restart, decide_restart
from appliance.role import Role
from appliance.role_life import End, ManagedRole, Phase
from appliance.service_manager import notify
from appliance.signal_pipe import SignalPipe
from ipc.health_page import RoleHealth, monotonic_ms

S = TypeVar("S")

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

_BUSY_MS: Final = 5  # limit: what a start may wait for a step that nobody announces
_LEVELS: Final = frozenset({"held_pulls", "connections"})
"""Counters that say how many there are now; how fast that changes tells nobody anything."""
_IDLE_MS: Final = 250

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the supervisor waits before it acts. Milliseconds."""

    heartbeat_timeout_ms: int
    role_stop_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Result:
    """How the appliance ended: whether every role ended well when it was told to, and what ended it otherwise."""

    is_clean: bool
    error: ApplianceError | None


class Supervisor(Generic[S]):
    """Runs the roles of a table until it is told to stop."""

    def __init__(
        self,
        roles: Sequence[Role[S]],
        settings: Callable[[], S],
        inheritance: Inheritance,
        signals: SignalPipe,
        selector: selectors.BaseSelector,
        patience: Timeouts,
        say: Callable[[str], None],
        on_ready: Callable[[], None],
    ) -> None:
        """`settings()` is what roles are told, asked for at each start of one; `say` tells the operator one line; `on_ready` is
        called once, when every role is running.
        """
        self.lives = {role.name: ManagedRole(role, inheritance) for role in roles}
        self.rates = RateWindow()
        self.is_ready = False
        self.is_stopping = False
        self._settings = settings
        self._instance = inheritance.instance
        self._signals = signals
        self._selector = selector
        self._patience = patience
        self._say = say
        self._on_ready = on_ready
        self._error: ApplianceError | None = None
        self._was_clean = True
        self._waiting: list[Callable[[], bool]] = []
        self._step_began_ms = 0
        self._step = -1
        self._looked_at_ms = monotonic_ms()
        self._awake_since_ms = self._looked_at_ms
        selector.register(signals.fd, selectors.EVENT_READ, self._take_signals)

    # ---- for requests

    def stop(self) -> None:
        """Begin to stop the appliance."""
        if not self.is_stopping:
            logger.info("began to stop")
            notify("STOPPING=1")
            self.is_stopping = True
            for life in self.lives.values():
                if life.pid is None:
                    self._was_clean = self._was_clean and not life.ended_badly
                if life.phase is Phase.WAITING:
                    life.phase = Phase.STOPPED

    def stop_role(self, life: ManagedRole[S], *, and_start: bool) -> None:
        """Tell a role to stop, to stay down or to be started again."""
        life.is_to_start_again = and_start
        life.tell_to_stop(monotonic_ms(), self._patience.role_stop_timeout_ms)
        if life.phase is Phase.STOPPED and and_start:
            self.start_role(life)

    def start_role(self, life: ManagedRole[S]) -> None:
        """Let a role that is down be started again, at once."""
        life.phase = Phase.WAITING
        life.starts_from_ms = 0
        life.short_lives = 0

    def when(self, is_done: Callable[[], bool]) -> None:
        """Call `is_done` in every round until it says True."""
        self._waiting.append(is_done)

    # ---- the loop

    def run(self) -> Result:
        """Run until all roles have ended after `stop`."""
        while True:
            self._step_once()
            if self.is_stopping and not any(life.pid for life in self.lives.values()):
                has_run_once = all(life.has_run for life in self.lives.values() if life.role.runs_once)
                return Result(self._was_clean and has_run_once, self._error)
            for key, _ in self._selector.select((_BUSY_MS if self._is_busy() else _IDLE_MS) / 1000):
                key.data()

    def _step_once(self) -> None:
        now_ms = monotonic_ms()
        self._notice_stall(now_ms)
        for life in self.lives.values():
            end = life.reap()
            if end is not None:
                self._on_end(life, end, now_ms)
        health = self._instance.health.read()
        for life in self.lives.values():
            if life.phase is Phase.STARTING and health[life.name].state in {"running", "stopping"}:
                self._on_running(life)
            self._watch(life, health[life.name], now_ms)
        if self.is_stopping:
            self._advance_stop(now_ms)
        else:
            self._advance_start(now_ms)
        self._waiting = [is_done for is_done in self._waiting if not is_done()]
        if self.rates.is_due(now_ms):
            self.rates.add(now_ms, self.read_counters())

    def read_counters(self) -> dict[str, int]:
        """What rates are made of: the offsets that grow, and every counter as `<role>.<counter>`."""
        control = self._instance.control
        counters = {
            "wrote_bytes": control.wrote_offset,
            "flushed_bytes": control.flushed_offset,
            "reput_bytes": control.reput_offset,
        }
        for role, values in self._instance.read_counters().items():
            counters.update((f"{role}.{name}", value) for name, value in values.items() if name not in _LEVELS)
        return counters

    def _is_busy(self) -> bool:
        return (
            self.is_stopping
            or bool(self._waiting)
            or any(life.phase in {Phase.WAITING, Phase.PREPARING, Phase.STARTING} for life in self.lives.values())
        )

    def _notice_stall(self, now_ms: int) -> None:
        """Not to take the others' silence for a hang when the whole machine, or we ourselves, had stood still."""
        if now_ms - self._looked_at_ms > self._patience.heartbeat_timeout_ms // 2:
            logger.warning("the supervisor stood still for %d ms", now_ms - self._looked_at_ms)
            self._awake_since_ms = now_ms
        self._looked_at_ms = now_ms

    def _take_signals(self) -> None:
        for number in self._signals.read():
            if number in {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
                if self.is_stopping:
                    # Not a way to hurry: what is not flushed yet would be at risk.
                    self._say(f"still stopping: waiting for {', '.join(self._alive()) or 'nobody'}")
                else:
                    self._say(f"{number.name}: stopping")
                    self.stop()

    def _alive(self) -> list[str]:
        return [life.name for life in self.lives.values() if life.pid]

    # ---- one role

    def _on_running(self, life: ManagedRole[S]) -> None:
        life.became_ready()
        logger.info("role ready role=%s pid=%s", life.name, life.pid)

    def _on_end(self, life: ManagedRole[S], end: End, now_ms: int) -> None:
        _log_end(life, end)
        for other in self.lives.values():
            if other.role.ends_with == life.name and other.phase in {Phase.STARTING, Phase.RUNNING}:
                self.stop_role(other, and_start=True)
        if end.was_asked or self.is_stopping:
            life.phase = Phase.STOPPED
            if self.is_stopping:
                self._was_clean = self._was_clean and not life.ended_badly
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

    def _restart_or_fail(self, life: ManagedRole[S], end: End, now_ms: int) -> None:
        # Foreign code can end with any code; a reason is given only before it begins.
        if life.role.is_expendable and end.could_not_start and end.reason:
            logger.error("role %s stays down, it could not start: %s", life.name, end.reason)
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
                logger.warning("role restarts role=%s deaths=%d backoff_ms=%d", life.name, short_lives, backoff_ms)
                life.short_lives = short_lives
                life.phase = Phase.WAITING
                life.starts_from_ms = now_ms + backoff_ms
            case GiveUp(short_lives):
                self._fail(life, RoleGivenUp(f"{life.name} died {short_lives} times before it was ready: {end}"))

    def _fail(self, life: ManagedRole[S], error: ApplianceError) -> None:
        logger.info("ending the appliance: %s", error)
        life.phase = Phase.STOPPED
        self._error = self._error or error
        self.stop()

    def _watch(self, life: ManagedRole[S], health: RoleHealth, now_ms: int) -> None:
        if life.is_late_to_stop(now_ms):
            logger.error("role %s did not stop within %d ms", life.name, self._patience.role_stop_timeout_ms)
            life.abort(now_ms)
        match life.judge(health, now_ms, self._patience.heartbeat_timeout_ms, self._awake_since_ms):
            case Verdict.DUMP_STACKS:
                logger.error(
                    "role silent role=%s silent_ms=%d pid=%s%s action='write its stacks to logs/stacks.log and end'",
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
                            "role could not be forked role=%s error=%r backoff_ms=%d",
                            life.name,
                            error.strerror,
                            FORK_BACKOFF_MS,
                        )
                        life.starts_from_ms = now_ms + FORK_BACKOFF_MS
                        continue
                    self._fail(life, RoleFailedToStart(f"{life.name} could not be forked: {error.strerror}"))
                    return
        if not self.is_ready and all(
            life.phase in {Phase.RUNNING, Phase.ENDED, Phase.STOPPED} or life.role.is_expendable
            for life in self.lives.values()
        ):
            self.is_ready = True
            self._on_ready()

    def _may_begin(self, life: ManagedRole[S]) -> bool:
        return all(self.lives[name].has_run for name in life.role.after) and life.role.starts_when(
            self._instance.control
        )

    def _advance_stop(self, now_ms: int) -> None:
        """Tell those whose turn it is; the next turn comes when all of these are gone."""
        alive = [life for life in self.lives.values() if life.pid]
        step = min((life.role.stops for life in alive), default=-1)
        if step != self._step:
            self._step, self._step_began_ms = step, now_ms
        is_overdue = now_ms - self._step_began_ms > self._patience.role_stop_timeout_ms
        for life in alive:
            if life.role.stops != step or life.phase is Phase.STOPPING:
                continue
            if life.role.stops_when(self._instance.control) or is_overdue:
                life.tell_to_stop(now_ms, self._patience.role_stop_timeout_ms)


def _log_end(life: ManagedRole[S], end: End) -> None:
    is_expected = end.code in {exit_code.CLEAN, exit_code.COULD_NOT_START} or (
        life.role.is_expendable and end.was_asked
    )
    if is_expected and not (end.could_not_start and life.has_run):
        # One that never was ready and says why is spoken of by whoever started the appliance, in one line.
        logger.info("role ended role=%s how=%r lived_ms=%d", life.name, str(end), end.lived_ms)
    else:
        logger.warning(
            "role died role=%s how=%r lived_ms=%d%s", life.name, str(end), end.lived_ms, _about_client(end.client)
        )


def _about_client(client: str) -> str:
    return f" client={client}" if client else ""
