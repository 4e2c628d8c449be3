"""The shipped alert rules and the board: valid, firing when they should, and about metrics that exist."""

import fcntl
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from support.promtool import ROOT, UNPACKED, promtool
from web.metrics.broker_metrics import BrokerMetrics
from web.metrics.exposition import format_families
from web.metrics.role_metrics import ProcessUse, role_families
from web.sampling.sample import BrokerSample, ClientKind, Progress, Sample, Traffic

RULES = ROOT / "packaging" / "prometheus" / "headrace-alerts.yaml"
BOARD = ROOT / "packaging" / "grafana" / "headrace.json"
pytestmark = pytest.mark.slow

SAMPLE = Sample(
    1_000.0,
    (
        BrokerSample(
            "C",
            "broker-a",
            0,
            "10.0.0.1:10911",
            runtime={
                "commitLogMinOffset": "0",
                "commitLogMaxOffset": "4",
                "remainHowManyDataToFlush": "0 B",
                "dispatchBehindBytes": "7",
                "earliestMessageTimeStamp": "999000",
                "commitLogDiskRatio": "0.5",
                "putLatency99": "1.5",
            },
            permission=6,
            topic_in={"Orders": Traffic(15, 1500)},
            group_out={("Orders", "billing"): Traffic(9, 900)},
            progress=(Progress("billing", "Orders", 6, 5000, 1.5, 15),),
            producers={ClientKind("orders", "JAVA", "V4_9_8"): 2},
            consumers={ClientKind("billing", "PYTHON", "V4_9_8", "PUSH"): 3},
            dead_letters={"billing": 4},
            half_messages=5,
        ),
    ),
    status={
        "roles": {"broker": {"pid": 7, "state": "running", "restarts": 2, "heartbeat_age_ms": 15}},
        "offsets": {"flag_disk_full": 0},
        "lag": {"flush": 3},
        "counters": {"housekeeper": {"forced_deletions": 0}},
        "findings": [{"kind": "client id shared"}],
    },
)


@pytest.fixture(autouse=True)
def one_at_a_time() -> Iterator[None]:
    """Promtool is unpacked by one test process."""
    UNPACKED.parent.mkdir(exist_ok=True)
    with UNPACKED.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def exposition() -> bytes:
    families = [*BrokerMetrics().families(SAMPLE), *role_families(SAMPLE, lambda _: ProcessUse(1.0, 1))]
    return format_families(families)


def test_rules_are_valid() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(RULES))


def test_exposition_is_what_prometheus_reads() -> None:
    promtool("check", "metrics", stdin=exposition())


def series(name: str, values: str) -> dict[str, str]:
    return {"series": name, "values": values}


@pytest.mark.parametrize(
    ("alert", "given", "at"),
    [
        ("HeadraceBrokerDown", [series('headrace_broker_up{node_id="a",address="h:1"}', "0x10")], "2m"),
        ("HeadraceNameServersDown", [series("headrace_name_servers_up", "0x10")], "2m"),
        ("HeadraceRoleDown", [series('headrace_role_up{role="ha"}', "0x10")], "3m"),
        ("HeadraceRoleRestarts", [series('headrace_role_restarts_total{role="ha"}', "0 1 2 3 4")], "5m"),
        ("HeadraceWritesRefused", [series('headrace_offset{broker="",cell="flag_disk_full"}', "0 1 1")], "2m"),
        ("HeadraceDiskFillsUp", [series('headrace_storage_disk_ratio{node_id="a"}', "0.61+0.001x120")], "100m"),
        (
            "HeadraceMessagesDeletedEarly",
            [series('headrace_role_events_total{name="forced_deletions"}', "0 0 3 3")],
            "3m",
        ),
        ("HeadraceConsumerLate", [series('rocketmq_consumer_lag_latency{is_system="false"}', "400000x20")], "6m"),
        (
            "HeadraceConsumerLagGrows",
            [series('rocketmq_consumer_lag_messages{is_system="false"}', "20000+10x60")],
            "40m",
        ),
        ("HeadraceDeadLetters", [series('rocketmq_send_to_dlq_messages_total{consumer_group="g"}', "4 4 6 6")], "3m"),
        ("HeadraceGroupFinding", [series('headrace_findings{kind="client id shared"}', "1x20")], "6m"),
        ("HeadraceMetricsIncomplete", [series("headrace_scrape_complete", "0x20")], "6m"),
    ],
)
def test_alert_fires(alert: str, given: list[dict[str, str]], at: str, tmp_path: Path) -> None:
    """No alert is expected here, so that promtool reports the one that fires."""
    case = {"interval": "1m", "input_series": given, "alert_rule_test": [{"eval_time": at, "alertname": alert}]}
    tests = tmp_path / "tests.yaml"
    tests.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}))
    with pytest.raises(AssertionError, match=rf"(?s)exp:\[\s*\],\s*got:\[.*{alert}"):
        promtool("test", "rules", str(tests))


def test_healthy_cluster_fires_nothing(tmp_path: Path) -> None:
    given = [
        series(line.rpartition(" ")[0], f"{line.rpartition(' ')[2]}x60")
        for line in format_families(
            [
                *BrokerMetrics().families(SAMPLE),
                *role_families(replace(SAMPLE, status={**(SAMPLE.status or {}), "findings": []})),
            ]
        )
        .decode()
        .splitlines()
        if not line.startswith("#")
    ]
    checks = [{"eval_time": "50m", "alertname": rule["alert"]} for rule in rules()]
    case = {"interval": "1m", "input_series": given, "alert_rule_test": checks}
    tests = tmp_path / "tests.yaml"
    tests.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}))
    promtool("test", "rules", str(tests))


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_rules_and_board_use_metrics_that_exist() -> None:
    existing = set(re.findall(r"^([a-z_0-9]+)[{ ]", exposition().decode(), re.MULTILINE))
    existing |= {"headrace_scrape_complete"}
    board = json.loads(BOARD.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [rule["expr"] for rule in rules()]
    assert len(expressions) > 30
    used = {name for text in expressions for name in re.findall(r"\b(?:rocketmq|headrace)_[a-z_0-9]+", text)}
    assert used - existing == set()
    for rule in rules():
        assert {"summary", "description"} <= rule["annotations"].keys()
