"""The requests that the supervisor accepts over the control socket:

========  ============  ==========================================================================
command   role          answered
========  ============  ==========================================================================
status                  at once, with `status` as returned by `appliance.status`
stop                    when every role has ended and the appliance has cleaned up
stop      ROLE          when it has ended; it stays down until it is started
start     ROLE          when it is running
restart   ROLE          when it is running again
========  ============  ==========================================================================

==============  ======================================================================================
exports         at once, with the last exports that the console requested (`export_runs`)
start-export    when its process exists; the fields are those of `export_order`
stop-export     at once, with `id` of the export; it ends later
==============  ======================================================================================

With several brokers, ROLE may be the name of one: the command then applies to all its roles, and a start recovers its
store. Every answer has `ok`; if it is false, `error` has the reason in one line.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from appliance.broker_group import BrokerGroup, GroupState
from appliance.control_server import Answer
from appliance.errors import ExportRefused, PreflightFailed
from appliance.managed_role import ManagedRole, Phase
from appliance.role_supervisor import RoleSupervisor
from appliance.status import broker_status, role_statuses, store_status
from appliance.supervisor import Supervisor
from headrace.model.option import nearest_key
from ipc.health_row import monotonic_ms

_SHOWN_CHARACTERS: Final = 80
_COMMANDS: Final = frozenset({"stop", "start", "restart"})
_EXPORT_COMMANDS: Final = ("exports", "start-export", "stop-export")

logger = logging.getLogger(__name__)


class ControlRequests:
    """Executes requests on the supervisor."""

    def __init__(self, supervisor: Supervisor, about: dict[str, Any]) -> None:
        """`about` is part of every status: pid, data folder and the like."""
        self._supervisor = supervisor
        self._brokers = {group.label: group for group in supervisor.groups.values() if group.label}
        """The brokers by name, if there are several; empty for one."""
        self._about = about
        self._began_ms = monotonic_ms()
        self._stop_answers: list[Answer] = []

    def handle(self, request: dict[str, Any], answer: Answer) -> None:
        """Execute one request; `answer` is called now or later."""
        command, name = request.get("command"), request.get("role")
        if command == "status":
            answer({"ok": True, "status": self.status()})
        elif command in _EXPORT_COMMANDS:
            self._handle_export(command, request, answer)
        elif command == "stop" and name is None:
            logger.info("stop requested")
            self._stop_answers = [*(one for one in self._stop_answers if one.is_wanted), answer]
            self._supervisor.stop()
        elif not isinstance(command, str) or command not in _COMMANDS:
            answer(_refusal(f"unknown command {_shown(command)}"))
        elif not isinstance(name, str):
            answer(_refusal(self._about_unknown_role(name)))
        elif name in self._brokers:
            self._handle_broker(command, self._brokers[name], answer)
        else:
            found = self._supervisor.find_role(name)
            if found is None:
                answer(_refusal(self._about_unknown_role(name)))
            else:
                self._handle_role(command, *found, answer)

    def status(self) -> dict[str, Any]:
        """The current status."""
        supervisor, now_ms = self._supervisor, monotonic_ms()
        roles: dict[str, Any] = {}
        for one in supervisor.role_supervisors():
            roles.update(role_statuses(one, now_ms))
        status = {"state": supervisor.state, **self._about, "uptime_ms": now_ms - self._began_ms, "roles": roles}
        own = supervisor.own
        rates, counters = own.rates.per_second(now_ms, own.read_counters()), own.read_role_counters()
        if self._brokers:
            brokers = {name: broker_status(group, now_ms) for name, group in self._brokers.items()}
            return {**status, "rates": rates, "counters": counters, "brokers": brokers}
        [only] = supervisor.groups.values()
        of_store = store_status(only, now_ms)
        return {
            **status,
            **of_store,
            "rates": {**of_store["rates"], **rates},
            "counters": {**of_store["counters"], **counters},
        }

    def answer_stop(self, *, is_clean: bool, error: str | None) -> None:
        """Answer pending stop requests, as the supervisor's last action."""
        for answer in self._stop_answers:
            answer({"ok": True, "clean": is_clean, "reason": error})

    def _about_unknown_role(self, role: object) -> str:
        roles = [
            *self._brokers,
            *(managed.name for one in self._supervisor.role_supervisors() for managed in one.managed_roles.values()),
        ]
        near = nearest_key(role, roles) if isinstance(role, str) and len(role) <= _SHOWN_CHARACTERS else None
        hint = f" (did you mean {near}?)" if near else ""
        return f"role {_shown(role)} not found{hint}; existing roles: {', '.join(roles)}"

    # ---- one role

    def _handle_role(
        self, command: str, roles: RoleSupervisor[Any, Any], managed: ManagedRole[Any, Any], answer: Answer
    ) -> None:
        if self._supervisor.is_stopping:
            answer(_refusal("the appliance is stopping"))
        elif managed.role.runs_once:
            answer(
                _refusal(
                    f"{managed.name} runs once at startup and cannot be started or stopped on its own; restart the appliance instead"
                )
            )
        elif roles.is_stopping:
            broker = managed.name.partition("/")[0]
            answer(_refusal(f"{broker} is stopped; start it with: headrace start {broker}"))
        else:
            logger.info("role command received command=%s role=%s", command, managed.name)
            managed.problem = ""
            if command == "start":
                if managed.phase in {Phase.STOPPED, Phase.WAITING}:
                    roles.start_role(managed)
                elif managed.phase is Phase.STOPPING:
                    managed.is_to_start_again = True
            else:
                roles.stop_role(managed, monotonic_ms(), and_start=command == "restart")
            self._answer_when_role_is(Phase.STOPPED if command == "stop" else Phase.RUNNING, roles, managed, answer)

    def _answer_when_role_is(
        self, phase: Phase, roles: RoleSupervisor[Any, Any], managed: ManagedRole[Any, Any], answer: Answer
    ) -> None:
        def is_done() -> bool:
            if not answer.is_wanted:
                return True
            if managed.phase is phase:
                answer({"ok": True, "role": managed.name, "state": phase.value, "pid": managed.pid})
                return True
            if phase is Phase.RUNNING and managed.problem:
                answer(_refusal(f"{managed.name} could not start: {managed.problem}; the supervisor tries again"))
                return True
            if self._supervisor.is_stopping or roles.is_stopping:
                what = "the appliance" if self._supervisor.is_stopping else "its broker"
                answer(_refusal(f"{what} is stopping; {managed.name} is {managed.phase.value}"))
                return True
            return False

        self._supervisor.when(is_done)

    # ---- exports

    def _handle_export(self, command: str, request: dict[str, Any], answer: Answer) -> None:
        exports = self._supervisor.exports
        try:
            match command:
                case "start-export":
                    answer({"ok": True, "run": exports.start(request).as_json()})
                case "stop-export":
                    answer({"ok": True, "run": exports.stop(request.get("id")).as_json()})
                case _:
                    answer({"ok": True, **exports.as_json()})
        except ExportRefused as error:
            answer(_refusal(str(error)))

    # ---- one broker

    def _handle_broker(self, command: str, group: BrokerGroup, answer: Answer) -> None:
        if self._supervisor.is_stopping:
            answer(_refusal("the appliance is stopping"))
            return
        logger.info("broker command received command=%s broker=%s", command, group.name)
        if command != "start":
            self._supervisor.stop_group(group, and_start=command == "restart")
        elif group.state is GroupState.STOPPING:
            group.is_to_start_again = True
        if command != "stop" and not group.is_open:
            try:
                self._supervisor.start_group(group)
            except PreflightFailed as error:
                answer(_refusal(str(error)))
                return
        self._answer_when_broker_is(_is_down if command == "stop" else _is_up, group, answer)

    def _answer_when_broker_is(
        self, is_there: Callable[[BrokerGroup], bool], group: BrokerGroup, answer: Answer
    ) -> None:
        def is_done() -> bool:
            if not answer.is_wanted:
                return True
            if is_there(group):
                answer({"ok": True, "broker": group.name, "state": group.state.value, "clean": group.was_clean})
            elif group.state is GroupState.FAILED:
                answer(_refusal(str(group.error)))
            elif self._supervisor.is_stopping:
                answer(_refusal(f"the appliance is stopping; {group.name} is {group.state.value}"))
            else:
                return False
            return True

        self._supervisor.when(is_done)


def _is_up(group: BrokerGroup) -> bool:
    return group.state is GroupState.RUNNING


def _is_down(group: BrokerGroup) -> bool:
    return not group.is_open


def _refusal(error: str) -> dict[str, Any]:
    return {"ok": False, "error": error}


def _shown(value: object) -> str:
    """What a client sent as a name, for messages: text unchanged, otherwise its type; truncated."""
    text = value if isinstance(value, str) else f"of type {type(value).__name__}"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
