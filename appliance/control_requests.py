"""What can be asked of the supervisor over the control socket: a table.

========  ============  ==========================================================================
command   role          answered
========  ============  ==========================================================================
status                  at once, with `status` as `appliance.status` draws it
stop                    when every role has ended and the appliance's files are put away
stop      ROLE          when it has ended; it stays down until it is started
start     ROLE          when it is running
restart   ROLE          when it is running again
========  ============  ==========================================================================

Every answer has `ok`; where that is false, `error` says why in one line.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from appliance.control_server import Answer
from appliance.role_life import ManagedRole, Phase
from appliance.status import lags, role_status
from appliance.supervisor import Supervisor
from headrace.model.option import nearest_key
from ipc.health_page import monotonic_ms
from ipc.instance import Instance

S = TypeVar("S")

_SHOWN_CHARACTERS: Final = 80

logger = logging.getLogger(__name__)


class ControlRequests(Generic[S]):
    """Carries out requests on one supervisor."""

    def __init__(self, supervisor: Supervisor[S], instance: Instance, about: dict[str, Any]) -> None:
        """`about` is said with every status: pid, data folder and the like."""
        self._supervisor = supervisor
        self._instance = instance
        self._about = about
        self._began_ms = monotonic_ms()
        self._stop_answers: list[Answer] = []
        self._commands: dict[str, Callable[[ManagedRole[S], Answer], None]] = {
            "stop": self._stop_role,
            "start": self._start_role,
            "restart": self._restart_role,
        }

    def handle(self, request: dict[str, Any], answer: Answer) -> None:
        """Carry out one request; `answer` is called now or later."""
        command, role = request.get("command"), request.get("role")
        if command == "status":
            answer({"ok": True, "status": self.status()})
        elif command == "stop" and role is None:
            logger.info("asked to stop")
            self._stop_answers = [*(one for one in self._stop_answers if one.is_wanted), answer]
            self._supervisor.stop()
        elif not isinstance(command, str) or command not in self._commands:
            answer(_refusal(f"unknown command {_shown(command)}"))
        elif not isinstance(role, str) or role not in self._supervisor.lives:
            answer(_refusal(self._about_unknown_role(role)))
        elif self._supervisor.is_stopping:
            answer(_refusal("the appliance is stopping"))
        elif self._supervisor.lives[role].role.runs_once:
            answer(_refusal(f"{role} runs once, before the others, and is not stopped or started by itself"))
        else:
            logger.info("asked to %s role %s", command, role)
            self._commands[command](self._supervisor.lives[role], answer)

    def status(self) -> dict[str, Any]:
        """The status as of now."""
        supervisor, now_ms = self._supervisor, monotonic_ms()
        health = self._instance.health.read()
        offsets = self._instance.control.read()
        if supervisor.is_stopping:
            state = "stopping"
        else:
            state = "running" if supervisor.is_ready else "starting"
        return {
            "state": state,
            **self._about,
            "uptime_ms": now_ms - self._began_ms,
            "roles": {name: role_status(life, health[name], now_ms) for name, life in self._supervisor.lives.items()},
            "offsets": offsets,
            "lag": lags(offsets),
            "rates": supervisor.rates.per_second(now_ms, supervisor.read_counters()),
            "counters": self._instance.read_counters(),
            "findings": self._instance.findings_page().read(),
        }

    def answer_stop(self, *, is_clean: bool, error: str | None) -> None:
        """Tell those who asked to stop that it is done, as the supervisor's last act."""
        for answer in self._stop_answers:
            answer({"ok": True, "clean": is_clean, "reason": error})

    def _about_unknown_role(self, role: object) -> str:
        roles = list(self._supervisor.lives)
        near = nearest_key(role, roles) if isinstance(role, str) and len(role) <= _SHOWN_CHARACTERS else None
        hint = f" (did you mean {near}?)" if near else ""
        return f"there is no role {_shown(role)}{hint}: the roles are {', '.join(roles)}"

    def _stop_role(self, life: ManagedRole[S], answer: Answer) -> None:
        self._supervisor.stop_role(life, and_start=False)
        self._answer_when(answer, life, Phase.STOPPED)

    def _start_role(self, life: ManagedRole[S], answer: Answer) -> None:
        if life.phase is Phase.STOPPED:
            self._supervisor.start_role(life)
        elif life.phase is Phase.STOPPING:
            life.is_to_start_again = True
        self._answer_when(answer, life, Phase.RUNNING)

    def _restart_role(self, life: ManagedRole[S], answer: Answer) -> None:
        self._supervisor.stop_role(life, and_start=True)
        self._answer_when(answer, life, Phase.RUNNING)

    def _answer_when(self, answer: Answer, life: ManagedRole[S], phase: Phase) -> None:
        def is_done() -> bool:
            if not answer.is_wanted:
                return True
            if life.phase is phase:
                answer({"ok": True, "role": life.name, "state": phase.value, "pid": life.pid})
                return True
            if self._supervisor.is_stopping:
                answer(_refusal(f"the appliance is stopping; {life.name} is {life.phase.value}"))
                return True
            return False

        self._supervisor.when(is_done)


def _refusal(error: str) -> dict[str, Any]:
    return {"ok": False, "error": error}


def _shown(value: object) -> str:
    """What a client sent in a name's place, for people: text as it is, else its type; cut."""
    text = value if isinstance(value, str) else f"of type {type(value).__name__}"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
