"""The names of rocketmq-exporter, for boards made for it: `/metrics?compat=exporter`. All are gauges; only those that boards use."""

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from headrace.model import names
from web.metrics.kept_names import KeptNames
from web.sampling.sample import BrokerSample, Progress, Sample, disk_sizes, size_of_text

_BROKER: Final = ("cluster", "brokerIP", "brokerHost")
_RUNTIME: Final = (
    ("rocketmq_broker_tps", "putTps"),
    ("rocketmq_broker_qps", "getTransferedTps"),
    ("rocketmq_brokeruntime_dispatch_behind_bytes", "dispatchBehindBytes"),
    ("rocketmq_brokeruntime_commitlog_disk_ratio", "commitLogDiskRatio"),
    ("rocketmq_brokeruntime_consumequeue_disk_ratio", "consumeQueueDiskRatio"),
    ("rocketmq_brokeruntime_put_latency_99", "putLatency99"),
    ("rocketmq_brokeruntime_put_latency_999", "putLatency999"),
    ("rocketmq_brokeruntime_put_message_entire_time_max", "putMessageEntireTimeMax"),
    ("rocketmq_brokeruntime_getmessage_entire_time_max", "getMessageEntireTimeMax"),
    ("rocketmq_brokeruntime_send_threadpool_queue_size", "sendThreadPoolQueueSize"),
    ("rocketmq_brokeruntime_pull_threadpool_queue_size", "pullThreadPoolQueueSize"),
    ("rocketmq_brokeruntime_pagecache_lock_time_mills", "pageCacheLockTimeMills"),
    ("rocketmq_brokeruntime_msg_put_total_today_now", "msgPutTotalTodayNow"),
    ("rocketmq_brokeruntime_msg_gettotal_today_now", "msgGetTotalTodayNow"),
    ("rocketmq_brokeruntime_earliest_message_timestamp", "earliestMessageTimeStamp"),
)


class ExporterMetrics:
    """Remembers only which groups have series."""

    def __init__(self) -> None:
        self._groups: KeptNames[tuple[str, str, str]] = KeptNames()

    def families(self, sample: Sample) -> Iterator[Metric]:
        """All families of the sample."""
        brokers = [broker for broker in sample.brokers if broker.problem is None]
        for name, figure in _RUNTIME:
            yield _gauge(name, _BROKER, [(_of(broker), broker.number(figure)) for broker in brokers])
        flush = [(_of(broker), size_of_text(broker.runtime.get("remainHowManyDataToFlush", ""))) for broker in brokers]
        yield _gauge("rocketmq_brokeruntime_remain_howmanydata_toflush", _BROKER, flush)
        sizes = {_of(broker): disk_sizes(broker.runtime) for broker in brokers}
        for name, index in (("total", 0), ("free", 1)):
            values = [(label, size[index]) for label, size in sizes.items() if size is not None]
            yield _gauge(f"rocketmq_brokeruntime_commitlogdir_capacity_{name}", _BROKER, values)
        yield from self._groups_of(brokers)

    def _groups_of(self, brokers: list[BrokerSample]) -> Iterator[Metric]:
        diffs = {kind: _family(name, _GROUP) for kind, name in _DIFFS.items()}
        labels = ("cluster", "broker", "topic", "group")
        latency = _family("rocketmq_group_get_latency_by_storetime", labels)
        offset, tps = _family("rocketmq_producer_offset", labels[:3]), _family("rocketmq_consumer_tps", labels)
        kept = self._groups.choose((broker.key, one.topic, one.group) for broker in brokers for one in broker.progress)
        ends: dict[tuple[str, ...], int] = {}
        for broker in brokers:
            online = broker.members_by_group()
            for one in broker.progress:
                if (broker.key, one.topic, one.group) not in kept:
                    continue
                label = (broker.cluster, broker.key, one.topic, one.group)
                diffs[_kind(one)].add_metric((one.group, one.topic, str(online.get(one.group, 0)), "1"), one.lag)
                tps.add_metric(label, one.tps)
                if one.lag_ms is not None:
                    latency.add_metric(label, one.lag_ms)
                ends[label[:3]] = one.end_offset
        for end_label, end in ends.items():
            offset.add_metric(end_label, end)
        yield from (*diffs.values(), latency, tps, offset)


_GROUP: Final = ("group", "topic", "countOfOnlineConsumers", "msgModel")
_DIFFS: Final = {"": "rocketmq_group_diff", "retry": "rocketmq_group_retrydiff", "dlq": "rocketmq_group_dlqdiff"}


def _kind(one: Progress) -> str:
    if names.is_retry_topic(one.topic):
        return "retry"
    return "dlq" if one.topic.startswith(names.DLQ_PREFIX) else ""


def _of(broker: BrokerSample) -> tuple[str, ...]:
    return (broker.cluster, broker.address, broker.key)


def _family(name: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, "As in rocketmq-exporter.", labels=labels)


def _gauge(
    name: str, labels: tuple[str, ...], values: Sequence[tuple[tuple[str, ...], float | None]]
) -> GaugeMetricFamily:
    family = _family(name, labels)
    for label, value in values:
        if value is not None:
            family.add_metric(label, value)
    return family
