"""The appliance's state as one line for `systemctl status`, and whether its roles are healthy. Pure functions of plain values."""

from collections.abc import Sequence

from msgspec import Struct

from appliance.managed_role import Phase


class RoleState(Struct, frozen=True):
    """What the line shows of a role. `is_silent`: its heartbeat is overdue; `long_call`: the call that it has announced.

    An optional role may wait for ever, such as the console for its port or a filter worker for memory: that is no reason to restart the appliance.
    """

    name: str
    phase: Phase
    is_silent: bool
    long_call: str | None = None
    is_optional: bool = False

    @property
    def is_healthy(self) -> bool:
        """Whether it works, starts, or was stopped on purpose: neither silent nor waiting to be started again."""
        return self.is_optional or (not self.is_silent and self.phase is not Phase.WAITING)


def format_state_line(state: str, roles: Sequence[RoleState], failed_brokers: Sequence[str]) -> str:
    """Such as `running, 8 roles; down: broker`. `state` is that of the appliance: starting, running or stopping."""
    processes = [role for role in roles if role.phase not in {Phase.WAITING, Phase.STOPPED, Phase.ENDED}]
    if state == "stopping":
        return f"stopping; waiting for {', '.join(role.name for role in processes) or 'cleanup'}"
    count = "1 role" if len(processes) == 1 else f"{len(processes)} roles"
    parts = [f"running, {count}" if state == "running" else state]
    for what, names in (
        ("silent", [role.name for role in roles if role.is_silent]),
        ("down", [role.name for role in roles if role.phase is Phase.WAITING and state == "running"]),
        ("stopped", [role.name for role in roles if role.phase is Phase.STOPPED and state == "running"]),
        ("failed", failed_brokers),
        ("busy", [f"{role.name} ({role.long_call})" for role in roles if role.long_call]),
    ):
        if names:
            parts.append(f"{what}: {', '.join(names)}")
    return "; ".join(parts)
