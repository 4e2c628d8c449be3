"""The appliance's own figures: its processes, lags, counters and findings. From the supervisor's status and psutil; empty without an appliance."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import psutil
from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from web.sampling.sample import Sample


class ProcessUse(Struct, frozen=True):
    """What a process uses: seconds of CPU so far, resident bytes."""

    cpu_s: float
    memory_bytes: int


def read_process(pid: int) -> ProcessUse | None:
    """The use of a process; None if it has ended or cannot be read."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            return ProcessUse(times.user + times.system, process.memory_info().rss)
    except psutil.Error:
        return None


def role_families(sample: Sample, read: Callable[[int], ProcessUse | None] = read_process) -> Iterator[Metric]:
    """All families of the sample's status."""
    status = sample.status
    if status is None:
        return
    yield from _roles(_objects(status.get("roles")), read)
    yield from _brokers(status)


def _roles(roles: Mapping[str, Mapping[str, Any]], read: Callable[[int], ProcessUse | None]) -> Iterator[Metric]:
    up = GaugeMetricFamily("headrace_role_up", "Whether the role's process runs.", labels=("role",))
    restarts = CounterMetricFamily("headrace_role_restarts", "Restarts of the role.", labels=("role",))
    age = GaugeMetricFamily("headrace_role_heartbeat_age_seconds", "Time since its last heartbeat.", labels=("role",))
    cpu = CounterMetricFamily("headrace_role_cpu_seconds", "CPU time of its process.", labels=("role",))
    memory = GaugeMetricFamily("headrace_role_memory_bytes", "Resident memory of its process.", labels=("role",))
    for role, facts in roles.items():
        if facts.get("state") != "ended":
            up.add_metric((role,), 1 if facts.get("state") == "running" else 0)
        restarts.add_metric((role,), facts.get("restarts") or 0)
        if facts.get("heartbeat_age_ms") is not None:
            age.add_metric((role,), facts["heartbeat_age_ms"] / 1000)
        use = read(facts["pid"]) if facts.get("pid") else None
        if use is not None:
            cpu.add_metric((role,), use.cpu_s)
            memory.add_metric((role,), use.memory_bytes)
    yield from (up, restarts, age, cpu, memory)


def _brokers(status: Mapping[str, Any]) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "headrace_lag_bytes", "Bytes of the log that a role has not processed.", labels=("broker", "role")
    )
    offset = GaugeMetricFamily("headrace_offset", "A cell of the broker's control block.", labels=("broker", "cell"))
    counts = CounterMetricFamily("headrace_role_events", "A counter of a role.", labels=("broker", "role", "name"))
    levels = GaugeMetricFamily("headrace_level", "A gauge of a role.", labels=("broker", "role", "name"))
    findings = GaugeMetricFamily("headrace_findings", "Problems of consumer groups.", labels=("broker", "kind"))
    for name, facts in brokers_of(status).items():
        for role, behind in _objects(facts.get("lag")).items():
            lag.add_metric((name, role), behind)
        for cell, value in _objects(facts.get("offsets")).items():
            if not cell.startswith("asleep_"):
                offset.add_metric((name, cell), value)
        for role, numbers in _objects(facts.get("counters")).items():
            for counter, value in numbers.items():
                (levels if counter in LEVELS else counts).add_metric((name, role, counter), value)
        kinds = Counter(str(finding.get("kind")) for finding in facts.get("findings") or ())
        for kind, count in kinds.items():
            findings.add_metric((name, kind), count)
    yield from (lag, offset, counts, levels, findings)


def brokers_of(status: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """What the status has of each broker, by name; the only one of an appliance has no name."""
    return _objects(status["brokers"]) if "brokers" in status else {"": status}


LEVELS: Final = frozenset({"held_pulls", "connections", "connection_buffer_bytes"})
"""Counters that are current numbers."""


def _objects(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
