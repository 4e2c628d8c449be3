"""The series of the history: which figures of two successive samples are recorded, under which names. A pure function.

broker.in/NAME, broker.out/NAME             messages per second
broker.disk/NAME                            used share of the file system, 0 to 1
broker.free/NAME                            free bytes of the file system
broker.log/NAME                             end of the CommitLog, bytes: it only grows
broker.behind/NAME/ID                       bytes that a slave has not copied yet
broker.kept/NAME                            age of the oldest message, s
broker.p99/NAME                             99 % of sends are stored within, ms
topic.in/TOPIC, topic.out/TOPIC             messages per second
group.lag/GROUP, group.time/GROUP           messages, and ms, behind
group.out/GROUP                             messages per second
group.dead/GROUP                            messages in the dead-letter topic, ever
cluster.in, cluster.out, cluster.lag        of all brokers, topics and groups
role.restarts/ROLE                          restarts since the appliance's start
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeVar

from headrace.model import names
from web.sampling.sample import BrokerSample, Sample, disk_sizes

K = TypeVar("K")

_MOST_NAME = 300  # limit: characters; names of groups have up to 255


def series_of(before: Sample | None, now: Sample) -> dict[str, float]:
    """The values of a sample. Rates need a sample before; what could not be read is missing."""
    values: defaultdict[str, float] = defaultdict(float)
    elapsed_s = now.time_s - before.time_s if before is not None else 0.0
    known = {broker.key: broker for broker in before.brokers} if before is not None else {}
    answering = [broker for broker in now.brokers if broker.problem is None]
    for broker in answering:
        _add(values, _of_broker(broker, now.time_s))
        _add(values, _of_groups(broker))
        earlier = known.get(broker.key)
        if earlier is not None and earlier.problem is None and elapsed_s > 0:
            _add(values, _rates(earlier, broker, elapsed_s))
    _add(values, _behind(answering))
    for group, lag_ms in _longest_lags(answering).items():
        values[f"group.time/{group}"] = lag_ms
    _add(values, _of_roles(now.status or {}))
    return {name: value for name, value in values.items() if len(name) <= _MOST_NAME}


def _add(values: dict[str, float], more: Mapping[str, float]) -> None:
    for name, value in more.items():
        values[name] += value


def _of_broker(broker: BrokerSample, now_s: float) -> dict[str, float]:
    sizes = disk_sizes(broker.runtime)
    earliest_ms = broker.number("earliestMessageTimeStamp")
    figures = {
        "disk": broker.number("commitLogDiskRatio"),
        "free": sizes[1] if sizes is not None else None,
        "log": broker.number("commitLogMaxOffset"),
        "kept": max(now_s - earliest_ms / 1000, 0) if earliest_ms is not None and earliest_ms > 0 else None,
        "p99": broker.number("putLatency99"),
    }
    return {f"broker.{figure}/{broker.key}": value for figure, value in figures.items() if value is not None}


def _behind(brokers: list[BrokerSample]) -> dict[str, float]:
    """By slave. Master and slave are read at about the same time: a slave seems to be ahead if it was read later."""
    ends = {
        (broker.cluster, broker.name): broker.number("commitLogMaxOffset") for broker in brokers if broker.is_master
    }
    behind: dict[str, float] = {}
    for slave in brokers:
        end, target = slave.number("commitLogMaxOffset"), ends.get((slave.cluster, slave.name))
        if not slave.is_master and end is not None and target is not None:
            behind[f"broker.behind/{slave.key}"] = max(target - end, 0)
    return behind


def _of_groups(broker: BrokerSample) -> dict[str, float]:
    values: dict[str, float] = {"cluster.lag": 0.0} if broker.is_master else {}
    for group, lag, _ in broker.lags():
        if not names.is_system_group(group):
            values[f"group.lag/{group}"] = lag
            values["cluster.lag"] += lag
    for group, count in broker.dead_letters.items():
        values[f"group.dead/{group}"] = count
    return values


def _longest_lags(brokers: list[BrokerSample]) -> dict[str, int]:
    longest: dict[str, int] = {}
    for broker in brokers:
        for group, _, lag_ms in broker.lags():
            if lag_ms is not None and not names.is_system_group(group):
                longest[group] = max(longest.get(group, 0), lag_ms)
    return longest


def _rates(before: BrokerSample, now: BrokerSample, elapsed_s: float) -> dict[str, float]:
    """Differences of totals. A smaller total than before means that the broker was restarted: a gap."""
    counts: defaultdict[str, float] = defaultdict(float)
    for topic, count in _differences(before.messages_by_topic(), now.messages_by_topic()).items():
        if not names.is_system_topic(topic):
            counts[f"topic.in/{topic}"] += count
        counts[f"broker.in/{now.key}"] += count
        counts["cluster.in"] += count
    for (topic, group), count in _differences(_totals_out(before), _totals_out(now)).items():
        if not names.is_system_topic(topic):
            counts[f"topic.out/{topic}"] += count
        if not names.is_system_group(group):
            counts[f"group.out/{group}"] += count
        counts[f"broker.out/{now.key}"] += count
        counts["cluster.out"] += count
    return {name: count / elapsed_s for name, count in counts.items()}


def _differences(before: Mapping[K, int], now: Mapping[K, int]) -> dict[K, int]:
    grown = {key: count - before.get(key, 0) for key, count in now.items()}
    return grown if all(count >= 0 for count in grown.values()) else {}


def _totals_out(broker: BrokerSample) -> dict[tuple[str, str], int]:
    if broker.group_out is not None:
        return {pair: traffic.messages for pair, traffic in broker.group_out.items()}
    return {(one.topic, one.group): max(one.end_offset - one.lag, 0) for one in broker.progress}


def _of_roles(status: Mapping[str, object]) -> dict[str, float]:
    roles = status.get("roles")
    if not isinstance(roles, dict):
        return {}
    return {f"role.restarts/{role}": facts.get("restarts") or 0 for role, facts in roles.items()}
