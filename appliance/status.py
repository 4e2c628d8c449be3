"""The data of `headrace status`: the state of every role, every offset, the lag of each role, and rates.

::

    {"state": "running", "pid": 4711, "uptime_ms": 61000, "data": "/…/data",
     "roles":   {"broker": {"pid", "state", "restarts", "heartbeat_age_ms", "long_call", "problem"}, …},
     "offsets": {CELL: NUMBER, …},     the control block's cells, by their names
     "lag":     {"flush": BYTES, "dispatch": BYTES, "ha": BYTES},
     "rates":   {"wrote_bytes": PER SECOND, "broker.<counter>": PER SECOND, …},
     "counters": {"broker": {NAME: NUMBER}, …},
     "findings": […]}

With several brokers, a role of one is called `NAME/ROLE`, and what belongs to one broker stands under its name::

     "brokers": {NAME: {"state", "reason", "address", "store", "offsets", "lag", "rates", "counters", "findings"}, …}

The state of a role is one of `managed_role.Phase`, that of a broker one of `broker_group.GroupState`. Pid and heartbeat age are null for a role
without a process, the age always for an expendable one. `problem` is why an optional role cannot start, empty if it can. A broker that never locked its store has no offsets.
"""

from collections.abc import Mapping
from typing import Any

from appliance.broker_group import BrokerGroup
from appliance.managed_role import ManagedRole
from appliance.role_supervisor import RoleSupervisor
from ipc.health_page import RoleHealth


def role_statuses(roles: RoleSupervisor[Any, Any], now_ms: int) -> dict[str, dict[str, Any]]:
    """The roles of one set, by the names used by operators."""
    health = roles.read_health()
    return {managed.name: role_status(managed, health[name], now_ms) for name, managed in roles.managed_roles.items()}


def role_status(managed: ManagedRole[Any, Any], health: RoleHealth, now_ms: int) -> dict[str, Any]:
    """One role's part of the status."""
    has_process = managed.pid is not None
    return {
        "pid": managed.pid,
        "state": managed.phase.value,
        "restarts": max(0, health.start_count - 1),
        "heartbeat_age_ms": max(0, now_ms - health.heartbeat_ms)
        if has_process and not managed.role.is_expendable
        else None,
        "long_call": health.long_call if has_process else None,
        "problem": managed.problem,
    }


def store_status(group: BrokerGroup, now_ms: int) -> dict[str, Any]:
    """The contents of one broker's shared memory, now or at its last stop."""
    if group.instance is None or group.roles is None:
        return {"offsets": {}, "lag": {}, "rates": {}, "counters": {}, "findings": []}
    offsets = group.instance.control.read()
    return {
        "offsets": offsets,
        "lag": lags(offsets),
        "rates": group.roles.rates.per_second(now_ms, group.roles.read_counters()) if group.is_open else {},
        "counters": group.instance.read_counters(),
        "findings": group.instance.findings_page().read(),
    }


def broker_status(group: BrokerGroup, now_ms: int) -> dict[str, Any]:
    """One of several brokers' part of the status."""
    configuration = group.configuration
    return {
        "state": group.state.value,
        "reason": None if group.error is None else str(group.error),
        "address": configuration.broker.address,
        "role": configuration.store.broker_role,
        "store": str(configuration.store_paths.root),
        **store_status(group, now_ms),
    }


def lags(cells: Mapping[str, int]) -> dict[str, int]:
    """How many bytes of the log each role has not processed yet. `ha` is included while there are slaves."""
    wrote = cells["wrote_offset"]
    lag = {"flush": wrote - cells["flushed_offset"], "dispatch": wrote - cells["reput_offset"]}
    if cells["slave_count"]:
        lag["ha"] = wrote - cells["push2slave_max_offset"]
    return {role: max(0, behind) for role, behind in lag.items()}
