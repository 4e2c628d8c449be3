"""What `headrace status` says: the state of every role, every offset, how far each role is behind, and rates.

::

    {"state": "running", "pid": 4711, "uptime_ms": 61000, "data": "/…/data",
     "roles":   {"broker": {"pid", "state", "restarts", "heartbeat_age_ms", "long_call"}, …},
     "offsets": {CELL: NUMBER, …},     the control block's cells, by their names
     "lag":     {"flush": BYTES, "dispatch": BYTES, "ha": BYTES},
     "rates":   {"wrote_bytes": PER SECOND, "broker.<counter>": PER SECOND, …},
     "counters": {"broker": {NAME: NUMBER}, …}}

A role's state is one of `role_life.Phase`; a role without a process has pid and heartbeat age null, an expendable one the age always.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from appliance.role_life import ManagedRole
from ipc.health_page import RoleHealth

S = TypeVar("S")


def role_status(life: ManagedRole[S], health: RoleHealth, now_ms: int) -> dict[str, Any]:
    """One role's part of the status."""
    has_process = life.pid is not None
    return {
        "pid": life.pid,
        "state": life.phase.value,
        "restarts": max(0, health.start_count - 1),
        "heartbeat_age_ms": max(0, now_ms - health.heartbeat_ms)
        if has_process and not life.role.is_expendable
        else None,
        "long_call": health.long_call if has_process else None,
    }


def lags(cells: Mapping[str, int]) -> dict[str, int]:
    """How many bytes of the log each role has not dealt with yet. `ha` counts while there are slaves."""
    wrote = cells["wrote_offset"]
    lag = {"flush": wrote - cells["flushed_offset"], "dispatch": wrote - cells["reput_offset"]}
    if cells["slave_count"]:
        lag["ha"] = wrote - cells["push2slave_max_offset"]
    return {role: max(0, behind) for role, behind in lag.items()}
