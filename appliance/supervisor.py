"""The supervisor's loop: signals, the rounds of each set of roles, requests, and the order of brokers and the appliance.

No threads, no event loop, nothing that blocks. Signal handlers write a byte into a pipe; the loop acts. Roles are rows
of a table; the supervisor does not depend on what they do.

The appliance's own roles start with the brokers and stop after the last of them. A broker that cannot start is stopped, and the others
continue; if none is left, the appliance ends with that error. It also ends if one of its own roles cannot start.
"""

import logging
import os
import selectors
import signal
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from appliance.broker_group import BrokerGroup, GroupState
from appliance.child import Inheritance
from appliance.errors import ApplianceError, PreflightFailed, ProgramReplaced
from appliance.export_runs import ExportRuns
from appliance.managed_role import ManagedRole
from appliance.role_supervisor import RoleSupervisor, Timeouts
from appliance.service_manager import ServiceManager
from appliance.signal_pipe import SignalPipe
from appliance.state_line import format_state_line
from ipc.errors import StoreLocked
from ipc.health_row import monotonic_ms
from ipc.role_context import RoleContext

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

_BUSY_MS: Final = 5  # limit: how long a start may wait for a step that no role announces
_IDLE_MS: Final = 250

logger = logging.getLogger(__name__)


class Announcements(Struct, frozen=True):
    """Output to the operator: `say` prints a line, `warn` a warning."""

    say: Callable[[str], None]
    warn: Callable[[str], None]


class Result(Struct, frozen=True):
    """How the appliance ended: whether every role ended well when it was stopped, and the error that ended it."""

    is_clean: bool
    error: ApplianceError | None


class Supervisor:
    """Runs the appliance's own roles and its brokers until it is stopped."""

    def __init__(
        self,
        own: RoleSupervisor[Any, Any],
        groups: Sequence[BrokerGroup],
        inherit: Callable[[BrokerGroup], Inheritance[RoleContext]],
        signals: SignalPipe,
        selector: selectors.BaseSelector,
        timeouts: Timeouts,
        announce: Announcements,
        service_manager: ServiceManager,
        on_ready: Callable[[], None],
        reload: Callable[[], str],
        exports: ExportRuns,
    ) -> None:
        """Starts the open groups. `on_ready` is called once, when every role is running except those of failed brokers.

        `reload` reads the configuration again, at SIGHUP, and returns what it changed, for people.
        """
        self.own = own
        self.groups = {group.name: group for group in groups}
        self.exports = exports
        self.is_ready = False
        self.is_stopping = False
        self._inherit = inherit
        self._signals = signals
        self._selector = selector
        self._timeouts = timeouts
        self._announce = announce
        self._service_manager = service_manager
        self._on_ready = on_ready
        self._reload = reload
        self._has_terminal = os.isatty(0)
        """Whether SIGHUP is sent by a terminal that was closed: then it stops the appliance."""
        self._error: ApplianceError | None = None
        self._was_clean = True
        self._waiting: list[Callable[[], bool]] = []
        self._looked_at_ms = monotonic_ms()
        self._awake_since_ms = self._looked_at_ms
        for group in groups:
            if group.is_open:
                self._start_roles(group)
        selector.register(signals.fd, selectors.EVENT_READ, self._take_signals)

    @property
    def state(self) -> str:
        """The appliance's state: starting, running or stopping."""
        if self.is_stopping:
            return "stopping"
        return "running" if self.is_ready else "starting"

    # ---- for requests

    def stop(self) -> None:
        """Begin to stop the appliance."""
        if not self.is_stopping:
            logger.info("appliance stopping")
            self._service_manager.stopping()
            self.is_stopping = True
            self.exports.close()
            for group in self.groups.values():
                self.stop_group(group)

    def stop_group(self, group: BrokerGroup, *, and_start: bool = False) -> None:
        """Begin to stop a broker, to stay down or to be restarted."""
        group.is_to_start_again = and_start
        if group.roles is not None and group.is_open:
            group.roles.stop()

    def start_group(self, group: BrokerGroup) -> None:
        """Begin to start a broker that is down. Raises PreflightFailed."""
        try:
            warnings = group.take_store()
            group.check_ports()
            group.make_memory()
        except (StoreLocked, PreflightFailed) as error:
            failure = PreflightFailed(f"{group.name} could not start: {error}")
            group.fail(failure)
            raise failure from error
        for warning in warnings:
            logger.warning("configuration warning broker=%s message=%r", group.name, warning)
        self._start_roles(group)

    def find_role(self, name: str) -> tuple[RoleSupervisor[Any, Any], ManagedRole[Any, Any]] | None:
        """A role by the name used by operators, and its set."""
        for roles in self.role_supervisors():
            for managed in roles.managed_roles.values():
                if managed.name == name:
                    return roles, managed
        return None

    def role_supervisors(self) -> list[RoleSupervisor[Any, Any]]:
        """The appliance's own roles, then those of each broker."""
        return [self.own, *(group.roles for group in self.groups.values() if group.roles is not None)]

    def when(self, is_done: Callable[[], bool]) -> None:
        """Call `is_done` in every round until it returns True."""
        self._waiting.append(is_done)

    # ---- the loop

    def run(self) -> Result:
        """Run until all roles have ended after `stop`."""
        while True:
            self._step_once()
            if self.own.is_stopping and self.own.is_down:
                return Result(self._was_clean and self.own.was_clean, self._error)
            for key, _ in self._selector.select((_BUSY_MS if self._is_busy() else _IDLE_MS) / 1000):
                key.data()

    def _step_once(self) -> None:
        now_ms = monotonic_ms()
        self._notice_stall(now_ms)
        for roles in self.role_supervisors():
            roles.step(now_ms, self._awake_since_ms)
        if self.own.error is not None and self._error is None:
            self._end(self.own.error)
        for group in self.groups.values():
            self._follow(group)
        self.exports.step(now_ms)
        if self.is_stopping:
            if not self.exports.is_running and not any(group.is_open for group in self.groups.values()):
                self.own.stop()
        elif not self.is_ready and self._is_everything_up():
            self.is_ready = True
            self._on_ready()
        self._waiting = [is_done for is_done in self._waiting if not is_done()]
        if self._service_manager.is_present:
            self._report(now_ms)

    def _is_busy(self) -> bool:
        return self.is_stopping or bool(self._waiting) or any(roles.is_busy for roles in self.role_supervisors())

    def _notice_stall(self, now_ms: int) -> None:
        """Detects stalls of the whole machine or of this process, so that silent roles are not taken for hung."""
        if now_ms - self._looked_at_ms > self._timeouts.heartbeat_timeout_ms // 2:
            logger.warning("supervisor stalled stalled_ms=%d", now_ms - self._looked_at_ms)
            self._awake_since_ms = now_ms
        self._looked_at_ms = now_ms

    def _report(self, now_ms: int) -> None:
        """Report the state to the service manager, and that every role is healthy if it is."""
        roles = [
            state for roles in self.role_supervisors() for state in roles.read_states(now_ms, self._awake_since_ms)
        ]
        failed = [group.name for group in self.groups.values() if group.state is GroupState.FAILED]
        self._service_manager.report(
            now_ms,
            format_state_line(self.state, roles, failed),
            is_healthy=all(role.is_healthy for role in roles),
            is_changing=self.is_stopping or not self.is_ready,
        )

    def _take_signals(self) -> None:
        for number in self._signals.read():
            if number == signal.SIGHUP and not self._has_terminal:
                self._reload_configuration()
            elif number in {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
                if self.is_stopping:
                    # A second signal does not speed up the stop: unflushed data would be at risk.
                    alive = [name for roles in self.role_supervisors() for name in roles.alive]
                    self._announce.say(f"still stopping: waiting for {', '.join(alive) or 'cleanup'}")
                else:
                    self._announce.say(f"{number.name}: stopping")
                    self.stop()

    def _reload_configuration(self) -> None:
        if self.is_stopping:
            return
        if self.is_ready:
            self._service_manager.reloading(monotonic_ms())
        self._announce.say(self._reload())
        if self.is_ready:
            self._service_manager.ready()

    # ---- brokers

    def _start_roles(self, group: BrokerGroup) -> None:
        group.start(self._inherit(group), self._timeouts, self.own.managed_roles)

    def _follow(self, group: BrokerGroup) -> None:
        """React to changes of a broker's roles."""
        if group.roles is None or not group.is_open:
            return
        if group.roles.error is not None and group.error is None:
            group.fail(group.roles.error)
            self._on_failure(group, group.roles.error)
        if group.roles.is_stopping and group.roles.is_down:
            group.close()
            self._on_closed(group)

    def _on_closed(self, group: BrokerGroup) -> None:
        if group.label:
            logger.info("broker stopped broker=%s clean=%s", group.name, str(group.was_clean).lower())
        if self.is_stopping:
            self._was_clean = self._was_clean and group.was_clean
        elif group.is_to_start_again:
            try:
                self.start_group(group)
            except PreflightFailed as error:
                self._on_failure(group, error)

    def _on_failure(self, group: BrokerGroup, error: ApplianceError) -> None:
        """Handle a broker that cannot start: the others continue, if there are any and they run the installed program."""
        if not isinstance(error, ProgramReplaced) and any(
            other.state is not GroupState.FAILED and other.error is None for other in self.groups.values()
        ):
            logger.error("broker failed to start broker=%s error=%r", group.name, str(error))
            self._announce.warn(f"{group.name} could not start; the other brokers continue: {error}")
        else:
            self._end(error)

    def _end(self, error: ApplianceError) -> None:
        # Not at error level, which standard error shows: the command prints the error itself.
        logger.info("appliance failed error=%r", str(error))
        self._error = self._error or error
        self.stop()

    def _is_everything_up(self) -> bool:
        return self.own.is_ready and all(
            group.state in {GroupState.RUNNING, GroupState.STOPPED, GroupState.FAILED} for group in self.groups.values()
        )
