"""The checks of `/healthz` and `/readyz`: pure functions of a status and a sample.

Healthy means that no process has failed: a service manager need not act. Ready means that clients are served: every broker has recovered
and serves, accepts writes, and is registered at the name servers. A role that an operator stopped is healthy and not ready.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from web.sampling.sample import Sample

SILENT_MS: Final = 10_000
"""A role whose last heartbeat is older, without an announced long call, is not healthy: the supervisor kills it soon."""

_ENDED: Final = "ended"
_REFUSALS: Final = {
    "flag_disk_full": "the disk is full",
    "flag_log_error": "a sync of the CommitLog failed",
    "flag_queue_error": "a ConsumeQueue cannot be written",
    "flag_index_error": "an IndexFile cannot be created",
}


class Check(Struct, frozen=True):
    """One check. `detail` states what was found."""

    name: str
    ok: bool
    detail: str


class Report(Struct, frozen=True):
    """All checks of one question."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether all checks passed."""
        return all(check.ok for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """For `?verbose`."""
        checks = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in self.checks]
        return {"ok": self.ok, "checks": checks}


def health(sample: Sample, *, has_appliance: bool) -> Report:
    """Whether the appliance is alive. A console without an appliance is, because it answers."""
    if not has_appliance:
        return Report((Check("console", ok=True, detail="running, not part of an appliance"),))
    if sample.status is None:
        return Report((Check("supervisor", ok=False, detail=sample.status_problem or "no answer"),))
    supervisor = Check("supervisor", ok=True, detail=str(sample.status.get("state")))
    return Report((supervisor, *(_role_health(role, facts) for role, facts in _roles(sample.status).items())))


def readiness(sample: Sample, *, has_appliance: bool) -> Report:
    """Whether clients are served. A console without an appliance is ready if the cluster has a master that answers."""
    if not has_appliance:
        return Report((_name_servers(sample), _any_master(sample)))
    if sample.status is None:
        return Report((Check("supervisor", ok=False, detail=sample.status_problem or "no answer"),))
    status = sample.status
    state = str(status.get("state"))
    checks = [Check("appliance", ok=state == "running", detail=state)]
    checks += [_role_ready(role, facts) for role, facts in _roles(status).items()]
    for name, facts in _brokers(status).items():
        checks.append(_writes(name, facts.get("offsets") or {}))
    return Report((*checks, _name_servers(sample), _any_master(sample), *_registered(sample, status)))


def _role_health(role: str, facts: Mapping[str, Any]) -> Check:
    state, age = str(facts.get("state")), facts.get("heartbeat_age_ms")
    if state in ("waiting", "failed"):
        return Check(f"role {role}", ok=False, detail=f"{state}, restarts={facts.get('restarts')}")
    if age is not None and age > SILENT_MS and facts.get("long_call") is None:
        return Check(f"role {role}", ok=False, detail=f"{state}, no heartbeat for {age} ms")
    return Check(f"role {role}", ok=True, detail=state)


def _role_ready(role: str, facts: Mapping[str, Any]) -> Check:
    state = str(facts.get("state"))
    return Check(f"role {role}", ok=state in ("running", _ENDED), detail=state)


def _writes(name: str, offsets: Mapping[str, Any]) -> Check:
    reasons = [reason for flag, reason in _REFUSALS.items() if offsets.get(flag)]
    what = f"writes of {name}" if name else "writes"
    return Check(what, ok=not reasons, detail="; ".join(reasons) or "accepted")


def _name_servers(sample: Sample) -> Check:
    return Check("name servers", ok=sample.problem is None, detail=sample.problem or "responding")


def _any_master(sample: Sample) -> Check:
    masters = [broker.name for broker in sample.brokers if broker.is_master and broker.problem is None]
    return Check("masters", ok=bool(masters), detail=", ".join(masters) or "no master responded")


def _registered(sample: Sample, status: Mapping[str, Any]) -> Sequence[Check]:
    """With several brokers, whether each is registered under its address; a single one's address is not in the status."""
    known = {broker.address for broker in sample.brokers if broker.problem is None}
    checks = []
    for name, facts in _brokers(status).items():
        address = facts.get("address")
        if isinstance(address, str):
            ok = address in known
            detail = f"{address} {'is registered' if ok else 'is not registered with the name servers'}"
            checks.append(Check(f"registration of {name}", ok=ok, detail=detail))
    return checks


def _brokers(status: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    brokers = status.get("brokers")
    return brokers if isinstance(brokers, dict) else {"": status}


def _roles(status: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    roles = status.get("roles")
    return roles if isinstance(roles, dict) else {}
