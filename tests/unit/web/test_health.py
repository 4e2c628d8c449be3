"""Health and readiness, and the name servers' addresses for clients."""

from typing import Any

import pytest

from web.health.checks import health, readiness
from web.health.name_server_list import is_subgroup, name_server_line
from web.sampling.sample import BrokerSample, Sample

BROKER = BrokerSample("C", "broker-a", 0, "10.0.0.1:10911")


def role(state: str = "running", age_ms: int | None = 100, long_call: str | None = None) -> dict[str, Any]:
    return {"pid": 7, "state": state, "restarts": 1, "heartbeat_age_ms": age_ms, "long_call": long_call}


def status(**changes: Any) -> dict[str, Any]:
    roles = {"recover": role("ended", None), "broker": role(), **changes.pop("roles", {})}
    return {"state": "running", "roles": roles, "offsets": {"flag_disk_full": 0}, **changes}


def sample(given: dict[str, Any] | None, *brokers: BrokerSample, problem: str | None = None) -> Sample:
    return Sample(1_000.0, brokers or (BROKER,), problem, given, None if given else "nobody listens")


def failed(report: Any) -> list[str]:
    return [check.name for check in report.checks if not check.ok]


def test_running_appliance_is_healthy_and_ready() -> None:
    whole = sample(status())
    assert health(whole, has_appliance=True).ok
    assert readiness(whole, has_appliance=True).ok


@pytest.mark.parametrize(
    ("facts", "is_healthy"),
    [
        (role("waiting", None), False),
        (role("running", 30_000), False),
        (role("running", 30_000, "deleting a file"), True),
        (role("stopped", None), True),
        (role("starting"), True),
    ],
)
def test_role_that_failed_is_unhealthy_and_one_that_is_down_not_ready(facts: dict[str, Any], is_healthy: bool) -> None:
    whole = sample(status(roles={"flush": facts}))
    assert health(whole, has_appliance=True).ok == is_healthy
    if facts["state"] != "running":
        assert failed(readiness(whole, has_appliance=True)) == ["role flush"]


def test_supervisor_that_does_not_answer_is_unhealthy_and_not_ready() -> None:
    assert failed(health(sample(None), has_appliance=True)) == ["supervisor"]
    assert failed(readiness(sample(None), has_appliance=True)) == ["supervisor"]


def test_refused_writes_are_not_ready_and_name_the_reason() -> None:
    report = readiness(sample(status(offsets={"flag_disk_full": 1, "flag_log_error": 1})), has_appliance=True)
    (check,) = [one for one in report.checks if not one.ok]
    assert (check.name, check.detail) == ("writes", "the disk is full; a sync of the CommitLog failed")


def test_starting_appliance_is_healthy_and_not_ready() -> None:
    whole = sample(status(state="starting", roles={"broker": role("preparing", None)}))
    assert health(whole, has_appliance=True).ok
    assert failed(readiness(whole, has_appliance=True)) == ["appliance", "role broker"]


def test_unregistered_broker_is_not_ready() -> None:
    down = BrokerSample("C", "broker-a", 0, "10.0.0.1:10911", problem="not registered")
    assert failed(readiness(sample(status(), down), has_appliance=True)) == ["masters"]
    brokers = {"broker-a": {"address": "10.0.0.1:10911"}, "broker-b": {"address": "10.0.0.1:10921"}}
    report = readiness(sample(status(brokers=brokers)), has_appliance=True)
    assert failed(report) == ["registration of broker-b"]


def test_name_servers_that_do_not_answer_are_not_ready() -> None:
    report = readiness(sample(status(), problem="no answer"), has_appliance=True)
    assert failed(report) == ["name servers"]


def test_console_alone_is_healthy_and_ready_with_a_cluster() -> None:
    assert health(sample(None), has_appliance=False).ok
    assert readiness(sample(None), has_appliance=False).ok
    assert not readiness(Sample(1_000.0, problem="no answer"), has_appliance=False).ok


def test_report_is_shown_as_json() -> None:
    shown = health(sample(None), has_appliance=True).to_json()
    assert shown == {"ok": False, "checks": [{"name": "supervisor", "ok": False, "detail": "nobody listens"}]}


@pytest.mark.parametrize(
    ("addresses", "reached_at", "line"),
    [
        (["10.0.0.1:9876", "10.0.0.2:9876"], "10.0.0.9", "10.0.0.1:9876;10.0.0.2:9876"),
        (["127.0.0.1:9876"], "10.0.0.9", "10.0.0.9:9876"),
        (["127.0.0.1:9876"], "127.0.0.1", "127.0.0.1:9876"),
        (["localhost:9876"], "fd00::1", "[fd00::1]:9876"),
    ],
)
def test_clients_get_addresses_that_they_can_reach(addresses: list[str], reached_at: str, line: str) -> None:
    assert name_server_line(addresses, reached_at) == line


def test_units_have_an_address_of_their_own() -> None:
    assert [is_subgroup(name) for name in ("nsaddr", "nsaddr-blue", "nsaddrs", "")] == [True, True, False, False]
