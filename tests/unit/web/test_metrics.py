"""The text for Prometheus: names, labels, limits and escapes."""

import re
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from web.metrics.broker_metrics import BrokerMetrics
from web.metrics.exporter_metrics import ExporterMetrics
from web.metrics.exposition import Exposition, format_families
from web.metrics.kept_names import OTHER, KeptNames
from web.metrics.role_metrics import ProcessUse, role_families
from web.sampling.sample import BrokerSample, ClientKind, Progress, Sample, Traffic

BROKER = BrokerSample(
    "C",
    "broker-a",
    0,
    "10.0.0.1:10911",
    runtime={
        "commitLogMinOffset": "100",
        "commitLogMaxOffset": "400",
        "remainHowManyDataToFlush": "1.5 KiB",
        "dispatchBehindBytes": "7",
        "earliestMessageTimeStamp": "999000",
        "putTps": "12.5 1 1",
        "timerCongestNum": "8",
        "commitLogDirCapacity": "Total : 2.0 GiB, Free : 1.0 GiB.",
    },
    permission=6,
    topics=frozenset({"Orders", "SCHEDULE_TOPIC_XXXX"}),
    groups=frozenset({"billing"}),
    topic_in={"Orders": Traffic(15, 1500), "SCHEDULE_TOPIC_XXXX": Traffic(2, 20)},
    group_out={("Orders", "billing"): Traffic(9, 900)},
    progress=(
        Progress("billing", "Orders", 6, 5000, 1.5, 15),
        Progress("billing", "%RETRY%billing", 1, None, 0.0, 1),
    ),
    producers={ClientKind("orders", "JAVA", "V4_9_8"): 2},
    consumers={ClientKind("billing", "PYTHON", "V4_9_8", "PUSH"): 3},
    dead_letters={"billing": 4},
    topic_events={"rocketmq_commit_messages": {"Orders": 3}, "rocketmq_timer_enqueue": {"Orders": 2}},
    half_messages=5,
)
SAMPLE = Sample(1_000.0, (BROKER,))


def values(families: list[Metric]) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """By name of the series, by labels; read from the text."""
    text = format_families(families).decode()
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            found.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = one.value
    return found


def of_brokers(
    sample: Sample, metrics: BrokerMetrics | None = None
) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    return values(list((metrics or BrokerMetrics()).families(sample)))


def label(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({"cluster": "C", "node_type": "broker", "node_id": "broker-a", **labels}.items()))


def test_names_and_labels_are_those_of_rocketmq_5() -> None:
    found = of_brokers(SAMPLE)
    orders = label(topic="Orders", is_system="false")
    assert found["rocketmq_messages_in_total"][orders] == 15
    assert found["rocketmq_throughput_in_total"][orders] == 1500
    assert found["rocketmq_messages_in_total"][label(topic="SCHEDULE_TOPIC_XXXX", is_system="true")] == 2
    billing = label(topic="Orders", consumer_group="billing", is_retry="false", is_system="false")
    retry = label(topic="%RETRY%billing", consumer_group="billing", is_retry="true", is_system="false")
    assert found["rocketmq_messages_out_total"] == {billing: 9}
    assert found["rocketmq_throughput_out_total"] == {billing: 900}
    assert found["rocketmq_consumer_lag_messages"] == {billing: 6, retry: 1}
    assert found["rocketmq_consumer_lag_latency"] == {billing: 5000}
    assert found["rocketmq_send_to_dlq_messages_total"] == {label(consumer_group="billing"): 4}
    by_topic = label(topic="Orders")
    assert found["rocketmq_commit_messages_total"] == {by_topic: 3}
    assert found["rocketmq_timer_enqueue_total"] == {by_topic: 2}
    assert "rocketmq_rollback_messages_total" not in found
    producer = label(producer_group="orders", language="JAVA", version="V4_9_8")
    consumer = label(consumer_group="billing", language="PYTHON", version="V4_9_8", consume_mode="push")
    assert found["rocketmq_producer_connections"] == {producer: 2}
    assert found["rocketmq_consumer_connections"] == {consumer: 3}
    gauges = {name: next(iter(found[name].values())) for name in found if len(found[name]) == 1}
    expected = {
        "rocketmq_broker_permission": 6,
        "rocketmq_topic_number": 2,
        "rocketmq_consumer_group_number": 1,
        "rocketmq_half_messages": 5,
        "rocketmq_timing_messages": 8,
        "rocketmq_storage_size": 300,
        "rocketmq_storage_flush_behind_bytes": 1536,
        "rocketmq_storage_dispatch_behind_bytes": 7,
        "rocketmq_storage_message_reserve_time": 1000,
        "headrace_broker_up": 1,
        "headrace_name_servers_up": 1,
    }
    assert expected.items() <= gauges.items()


def test_broker_without_totals_has_the_ends_of_consumed_topics() -> None:
    found = of_brokers(replace(SAMPLE, brokers=(replace(BROKER, topic_in=None, group_out=None),)))
    assert found["rocketmq_messages_in_total"][label(topic="Orders", is_system="false")] == 15
    assert "rocketmq_messages_out_total" not in found


def test_series_end_with_their_topic_and_group() -> None:
    metrics = BrokerMetrics()
    of_brokers(SAMPLE, metrics)
    found = of_brokers(replace(SAMPLE, brokers=(replace(BROKER, topic_in={}, group_out={}, progress=()),)), metrics)
    assert "rocketmq_messages_in_total" not in found
    assert "rocketmq_consumer_lag_messages" not in found


def test_broker_that_is_down_has_no_series_but_that() -> None:
    down = BrokerSample("C", "broker-a", 0, "10.0.0.1:10911", problem="gone")
    found = of_brokers(Sample(1_000.0, (down,)))
    assert list(found["headrace_broker_up"].values()) == [0]
    assert "rocketmq_topic_number" not in found


def test_names_beyond_the_limit_are_added_up() -> None:
    metrics = BrokerMetrics()
    metrics._topics = KeptNames(2)
    topics = {f"T{number}": Traffic(number, 10 * number) for number in range(5)}
    found = of_brokers(replace(SAMPLE, brokers=(replace(BROKER, topic_in=topics),)), metrics)
    assert found["rocketmq_messages_in_total"] == {
        label(topic="T0", is_system="false"): 0,
        label(topic="T1", is_system="false"): 1,
        label(topic=OTHER, is_system="false"): 9,
    }


def test_name_keeps_its_series_until_it_is_deleted() -> None:
    kept: KeptNames[tuple[str]] = KeptNames(2)
    assert set(kept.choose([("b",), ("c",)])) == {("b",), ("c",)}
    assert set(kept.choose([("a",), ("b",), ("c",)])) == {("b",), ("c",)}
    assert set(kept.choose([("a",), ("c",)])) == {("a",), ("c",)}


def test_hostile_names_cannot_forge_series() -> None:
    evil = 'x"} 1\nrocketmq_forged 1\n\\'
    found = of_brokers(replace(SAMPLE, brokers=(replace(BROKER, topic_in={evil: Traffic(1, 1)}),)))
    assert "rocketmq_forged" not in found
    assert found["rocketmq_messages_in_total"] == {label(topic=evil, is_system="false"): 1}


def test_exporter_names_are_those_of_its_boards() -> None:
    found = values(list(ExporterMetrics().families(SAMPLE)))
    assert list(found["rocketmq_broker_tps"].values()) == [12.5]
    group = (("countOfOnlineConsumers", "3"), ("group", "billing"), ("msgModel", "1"))
    assert found["rocketmq_group_diff"] == {tuple(sorted((*group, ("topic", "Orders")))): 6}
    assert found["rocketmq_group_retrydiff"] == {tuple(sorted((*group, ("topic", "%RETRY%billing")))): 1}
    assert list(found["rocketmq_group_get_latency_by_storetime"].values()) == [5000]
    assert list(found["rocketmq_brokeruntime_commitlogdir_capacity_free"].values()) == [1 << 30]


def test_roles_have_restarts_memory_and_cpu() -> None:
    status = {
        "roles": {
            "broker": {"pid": 7, "state": "running", "restarts": 2, "heartbeat_age_ms": 1500, "long_call": None},
            "ha": {"pid": None, "state": "waiting", "restarts": 9, "heartbeat_age_ms": None, "long_call": None},
            "recover": {"pid": None, "state": "ended", "restarts": 0, "heartbeat_age_ms": None, "long_call": None},
        },
        "offsets": {"wrote_offset": 5, "asleep_broker": 1},
        "lag": {"flush": 3},
        "counters": {"broker": {"messages_in": 8, "connections": 2}},
        "findings": [{"kind": "client id shared"}, {"kind": "client id shared"}],
    }
    found = values(list(role_families(replace(SAMPLE, status=status), lambda pid: ProcessUse(1.25, pid * 1000))))
    assert found["headrace_role_up"] == {(("role", "broker"),): 1, (("role", "ha"),): 0}
    assert found["headrace_role_restarts_total"][(("role", "ha"),)] == 9
    assert found["headrace_role_memory_bytes"] == {(("role", "broker"),): 7000}
    assert found["headrace_role_cpu_seconds_total"] == {(("role", "broker"),): 1.25}
    assert found["headrace_role_heartbeat_age_seconds"] == {(("role", "broker"),): 1.5}
    assert found["headrace_lag_bytes"] == {(("broker", ""), ("role", "flush")): 3}
    assert found["headrace_offset"] == {(("broker", ""), ("cell", "wrote_offset")): 5}
    assert found["headrace_role_events_total"] == {(("broker", ""), ("name", "messages_in"), ("role", "broker")): 8}
    assert found["headrace_level"] == {(("broker", ""), ("name", "connections"), ("role", "broker")): 2}
    assert found["headrace_findings"] == {(("broker", ""), ("kind", "client id shared")): 2}


def test_console_without_an_appliance_has_no_series_of_roles() -> None:
    assert list(role_families(SAMPLE)) == []


STATUS = {"roles": {}, "offsets": {}, "lag": {}, "counters": {}, "findings": []}
MONITORING = Path(__file__).resolve().parents[3] / "docs" / "operations" / "monitoring.md"


def served(*, exporter_names: bool) -> set[str]:
    """Names of all metrics, with or without series now."""
    exposition = Exposition(cast("Any", None))
    families = exposition._families(replace(SAMPLE, status=STATUS), exporter_names=exporter_names)
    return {f"{one.name}_total" if one.type == "counter" else one.name for one in families}


def described(begin: str, end: str) -> set[str]:
    """Names in the first column of the tables between two texts of the page about monitoring."""
    part = MONITORING.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    rows = [line.split("|") for line in part.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}


def test_page_about_monitoring_describes_every_metric() -> None:
    assert described("Names and labels are RocketMQ 5's", "Metrics with `compat=exporter`") == served(
        exporter_names=False
    )


def test_page_about_monitoring_describes_every_metric_of_the_exporter() -> None:
    text = MONITORING.read_text(encoding="utf-8").partition("Metrics with `compat=exporter`")[2].partition("Some of")[0]
    words = re.findall(r"`(\w+)`", text)
    prefix = next(word for word in words if word.endswith("_"))
    names = {word if word.startswith("rocketmq_") else prefix + word for word in words if word != prefix}
    assert names == served(exporter_names=True)
