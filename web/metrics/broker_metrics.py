"""The figures of brokers, topics and groups under RocketMQ 5's names.

Every figure is read from a Sample, so a series ends with its topic, group or broker. Counters are totals since the broker's start;
Apache's brokers of release 4.9 have none by topic, so for them they are the ends of queues, for topics that have consumers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.model import names
from web.metrics.kept_names import OTHER, KeptNames
from web.sampling.sample import BrokerSample, ClientKind, Progress, Sample, Traffic, size_of_text

_BROKER: Final = ("cluster", "node_type", "node_id")
_TOPIC: Final = (*_BROKER, "topic", "is_system")
_GROUP: Final = (*_BROKER, "topic", "consumer_group", "is_retry", "is_system")

_TOPIC_EVENTS: Final = {
    "rocketmq_commit_messages": "Half messages that were committed.",
    "rocketmq_rollback_messages": "Half messages that were rolled back.",
    "rocketmq_timer_enqueue": "Timer messages that were stored to wait.",
    "rocketmq_timer_dequeue": "Timer messages that were delivered.",
}
_Label = tuple[str, ...]
V = TypeVar("V")


class BrokerMetrics:
    """Remembers only which names have series."""

    def __init__(self) -> None:
        self._topics: KeptNames[tuple[str, str]] = KeptNames()
        self._event_topics: KeptNames[tuple[str, str]] = KeptNames()
        self._groups: KeptNames[tuple[str, str, str]] = KeptNames()
        self._clients: KeptNames[tuple[str, ...]] = KeptNames()

    def families(self, sample: Sample) -> Iterator[Metric]:
        """All families of the sample."""
        masters = [broker for broker in sample.brokers if broker.is_master and broker.problem is None]
        yield from _reachable(sample)
        yield from self._traffic_in(masters)
        yield from self._topic_events(masters)
        yield from self._traffic_out(masters)
        yield from self._lags(masters)
        yield from self._connections(masters)
        yield from self._dead_letters(masters)
        yield from _gauges(sample)

    def _traffic_in(self, masters: list[BrokerSample]) -> Iterator[Metric]:
        of_topics = {
            (broker.key, topic): (broker, traffic)
            for broker in masters
            for topic, traffic in _topic_traffic(broker).items()
        }
        kept = self._topics.choose(of_topics)
        messages = _counter("rocketmq_messages_in", "Messages that clients sent.", _TOPIC)
        size = _counter("rocketmq_throughput_in", "Bytes that clients sent.", _TOPIC)
        sums: dict[_Label, Traffic] = {}
        for (key, topic), (broker, traffic) in of_topics.items():
            shown = topic if (key, topic) in kept else OTHER
            label = (*_of(broker), shown, _bool(shown != OTHER and names.is_system_topic(topic)))
            sums[label] = _plus(sums.get(label), traffic)
        for label, traffic in sums.items():
            messages.add_metric(label, traffic.messages)
            size.add_metric(label, traffic.size_bytes)
        yield messages
        yield size

    def _topic_events(self, masters: list[BrokerSample]) -> Iterator[Metric]:
        """What brokers count by topic besides traffic. A topic that has no such messages has no series."""
        kept = self._event_topics.choose(
            (broker.key, topic) for broker in masters for by_topic in broker.topic_events.values() for topic in by_topic
        )
        for name, text in _TOPIC_EVENTS.items():
            family = _counter(name, text, (*_BROKER, "topic"))
            sums: dict[_Label, int] = {}
            for broker in masters:
                for topic, count in broker.topic_events.get(name, {}).items():
                    label = (*_of(broker), topic if (broker.key, topic) in kept else OTHER)
                    sums[label] = sums.get(label, 0) + count
            for label, count in sums.items():
                family.add_metric(label, count)
            yield family

    def _traffic_out(self, masters: list[BrokerSample]) -> Iterator[Metric]:
        messages = _counter("rocketmq_messages_out", "Messages in responses to pulls.", _GROUP)
        size = _counter("rocketmq_throughput_out", "Bytes in responses to pulls.", _GROUP)
        of_groups = {
            (broker.key, *pair): (broker, traffic)
            for broker in masters
            for pair, traffic in (broker.group_out or {}).items()
        }
        kept = self._groups.choose({*of_groups, *_progress_keys(masters)})
        sums: dict[_Label, Traffic] = {}
        for (key, topic, group), (broker, traffic) in of_groups.items():
            label = _group_label(broker, topic, group, is_kept=(key, topic, group) in kept)
            sums[label] = _plus(sums.get(label), traffic)
        for label, traffic in sums.items():
            messages.add_metric(label, traffic.messages)
            size.add_metric(label, traffic.size_bytes)
        yield messages
        yield size

    def _lags(self, masters: list[BrokerSample]) -> Iterator[Metric]:
        lag = GaugeMetricFamily(
            "rocketmq_consumer_lag_messages", "Messages that a group has not consumed.", labels=_GROUP
        )
        latency = GaugeMetricFamily(
            "rocketmq_consumer_lag_latency",
            "How long ago, in ms, the oldest message was stored that the group has not consumed; 0 without a lag.",
            labels=_GROUP,
        )
        pairs = {(broker.key, one.topic, one.group) for broker in masters for one in broker.progress}
        kept = self._groups.choose({*pairs, *((b.key, *pair) for b in masters for pair in b.group_out or {})})
        lags: dict[_Label, int] = {}
        times: dict[_Label, int] = {}
        for broker in masters:
            for one in broker.progress:
                label = _group_label(broker, one.topic, one.group, is_kept=(broker.key, one.topic, one.group) in kept)
                lags[label] = lags.get(label, 0) + one.lag
                if one.lag_ms is not None:
                    times[label] = max(times.get(label, 0), one.lag_ms)
        for label, count in lags.items():
            lag.add_metric(label, count)
        for label, ms in times.items():
            latency.add_metric(label, ms)
        yield lag
        yield latency

    def _connections(self, masters: list[BrokerSample]) -> Iterator[Metric]:
        producers = GaugeMetricFamily(
            "rocketmq_producer_connections",
            "Connected producers.",
            labels=(*_BROKER, "producer_group", "language", "version"),
        )
        consumers = GaugeMetricFamily(
            "rocketmq_consumer_connections",
            "Connected consumers.",
            labels=(*_BROKER, "consumer_group", "language", "version", "consume_mode"),
        )
        kinds = [(broker, kind, "producer") for broker in masters for kind in broker.producers]
        kinds += [(broker, kind, "consumer") for broker in masters for kind in broker.consumers]
        kept = self._clients.choose(_client_key(*one) for one in kinds)
        counts: dict[tuple[str, _Label], int] = {}
        for broker, kind, side in kinds:
            count = (broker.producers if side == "producer" else broker.consumers)[kind]
            shown = (
                (kind.group, kind.language, kind.version) if _client_key(broker, kind, side) in kept else (OTHER,) * 3
            )
            label = (*_of(broker), *shown, *((kind.mode.lower(),) if side == "consumer" else ()))
            counts[side, label] = counts.get((side, label), 0) + count
        for (side, label), count in counts.items():
            (producers if side == "producer" else consumers).add_metric(label, count)
        yield producers
        yield consumers

    def _dead_letters(self, masters: list[BrokerSample]) -> Iterator[Metric]:
        family = _counter(
            "rocketmq_send_to_dlq_messages",
            "Messages ever stored in a group's dead-letter topic.",
            (*_BROKER, "consumer_group"),
        )
        for broker in masters:
            for group, count in broker.dead_letters.items():
                family.add_metric((*_of(broker), group), count)
        yield family


def _reachable(sample: Sample) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "headrace_broker_up", "Whether the broker is registered and answers.", labels=("cluster", "node_id", "address")
    )
    for broker in sample.brokers:
        up.add_metric((broker.cluster, broker.key, broker.address), 0 if broker.problem is not None else 1)
    yield up
    cluster = GaugeMetricFamily("headrace_name_servers_up", "Whether a name server answers.")
    cluster.add_metric((), 0 if sample.problem is not None else 1)
    yield cluster


def _gauges(sample: Sample) -> Iterator[Metric]:
    for name, text, read in _GAUGES:
        family = GaugeMetricFamily(name, text, labels=_BROKER)
        for broker in sample.brokers:
            if broker.problem is not None:
                continue
            value = read(broker, sample)
            if value is not None:
                family.add_metric(_of(broker), value)
        yield family


def _reserve_time_ms(broker: BrokerSample, sample: Sample) -> float | None:
    earliest = broker.number("earliestMessageTimeStamp")
    return max(sample.time_s * 1000 - earliest, 0) if earliest is not None and earliest > 0 else None


def _put_latency(broker: BrokerSample, _sample: Sample) -> float | None:
    latency_ms = broker.number("putLatency99")
    return None if latency_ms is None else latency_ms / 1000


def _log_size(broker: BrokerSample, _sample: Sample) -> float | None:
    first, end = broker.number("commitLogMinOffset"), broker.number("commitLogMaxOffset")
    return None if first is None or end is None else max(end - max(first, 0), 0)


_GAUGES: Final[tuple[tuple[str, str, Callable[[BrokerSample, Sample], float | None]], ...]] = (
    ("rocketmq_broker_permission", "2: write, 4: read, 6: both.", lambda broker, _: broker.permission),
    ("rocketmq_topic_number", "Topics.", lambda broker, _: len(broker.topics) if broker.is_master else None),
    ("rocketmq_consumer_group_number", "Groups.", lambda broker, _: len(broker.groups) if broker.is_master else None),
    ("rocketmq_half_messages", "Messages of unresolved transactions.", lambda broker, _: broker.half_messages),
    (
        "rocketmq_timing_messages",
        "Timer messages that are not due yet.",
        lambda broker, _: broker.number("timerCongestNum") if broker.is_master else None,
    ),
    ("rocketmq_storage_size", "Bytes in the CommitLog.", _log_size),
    (
        "rocketmq_storage_flush_behind_bytes",
        "Written bytes that are not yet durable.",
        lambda broker, _: size_of_text(broker.runtime.get("remainHowManyDataToFlush", "")),
    ),
    (
        "rocketmq_storage_dispatch_behind_bytes",
        "Written bytes that are not yet in the indexes.",
        lambda broker, _: broker.number("dispatchBehindBytes"),
    ),
    ("rocketmq_storage_message_reserve_time", "Age of the oldest stored message, ms.", _reserve_time_ms),
    (
        "headrace_storage_disk_ratio",
        "Used share of the CommitLog's file system, 0 to 1.",
        lambda broker, _: broker.number("commitLogDiskRatio"),
    ),
    ("headrace_put_latency_p99_seconds", "99th percentile of the time to store a message.", _put_latency),
)


def _topic_traffic(broker: BrokerSample) -> Mapping[str, Traffic]:
    if broker.topic_in is not None:
        return broker.topic_in
    return {one.topic: Traffic(one.end_offset) for one in broker.progress}


def _progress_keys(masters: Iterable[BrokerSample]) -> Iterator[tuple[str, str, str]]:
    for broker in masters:
        for one in broker.progress:
            yield broker.key, one.topic, one.group


def _client_key(broker: BrokerSample, kind: ClientKind, side: str) -> tuple[str, ...]:
    return (side, broker.key, kind.group, kind.language, kind.version, kind.mode)


def _group_label(broker: BrokerSample, topic: str, group: str, *, is_kept: bool) -> _Label:
    if not is_kept:
        return (*_of(broker), OTHER, OTHER, "false", "false")
    is_system = Progress(group, topic, 0, None, 0.0).is_system
    return (*_of(broker), topic, group, _bool(names.is_retry_topic(topic)), _bool(is_system))


def _of(broker: BrokerSample) -> _Label:
    return (broker.cluster, "broker", broker.key)


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _plus(one: Traffic | None, other: Traffic) -> Traffic:
    return other if one is None else Traffic(one.messages + other.messages, one.size_bytes + other.size_bytes)


def _counter(name: str, text: str, labels: tuple[str, ...]) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, labels=labels)
