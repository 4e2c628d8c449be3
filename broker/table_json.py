"""The JSON of the topic table and of the group table: the same in `config/*.json`, in answers and in REGISTER_BROKER.

Keys come in alphabetical order, as fastjson writes beans. Reading leaves unknown keys alone and gives missing ones RocketMQ's defaults.
"""

from collections.abc import Mapping
from typing import Any

from headrace.errors import RemoteProtocolError
from headrace.model.data_version import DataVersion
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.model.topic_config import TopicConfig, TopicFilterType


def version_json(version: DataVersion) -> dict[str, int]:
    """A data version."""
    return {"counter": version.counter, "timestamp": version.timestamp}


def topic_json(topic: TopicConfig) -> dict[str, Any]:
    """One topic's settings."""
    return {
        "order": topic.order,
        "perm": topic.permission,
        "readQueueNums": topic.read_queue_count,
        "topicFilterType": topic.filter_type.name,
        "topicName": topic.name,
        "topicSysFlag": topic.sys_flag,
        "writeQueueNums": topic.write_queue_count,
    }


def topics_json(topics: Mapping[str, TopicConfig], version: DataVersion) -> dict[str, Any]:
    """The topic table with its version."""
    table = {name: topic_json(topic) for name, topic in topics.items()}
    return {"dataVersion": version_json(version), "topicConfigTable": table}


def read_topics(value: Any) -> tuple[dict[str, TopicConfig], DataVersion]:
    """The topic table and its version. Raises RemoteProtocolError."""
    topics = {}
    for name, found in _table(value, "topicConfigTable").items():
        try:
            topics[name] = TopicConfig(
                name,
                int(found.get("readQueueNums", 16)),
                int(found.get("writeQueueNums", 16)),
                int(found.get("perm", 6)),
                TopicFilterType(found.get("topicFilterType") or TopicFilterType.SINGLE_TAG),
                int(found.get("topicSysFlag", 0)),
                bool(found.get("order", False)),
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise RemoteProtocolError(f"topic {name!r}: {error}") from None
    return topics, _version(value)


def group_json(group: SubscriptionGroupConfig) -> dict[str, Any]:
    """One group's settings."""
    return {
        "brokerId": group.broker_id,
        "consumeBroadcastEnable": group.consume_broadcast_enable,
        "consumeEnable": group.consume_enable,
        "consumeFromMinEnable": group.consume_from_min_enable,
        "groupName": group.group_name,
        "notifyConsumerIdsChangedEnable": group.notify_consumer_ids_changed_enable,
        "retryMaxTimes": group.retry_max_times,
        "retryQueueNums": group.retry_queue_count,
        "whichBrokerWhenConsumeSlowly": group.which_broker_when_consume_slowly,
    }


def groups_json(groups: Mapping[str, SubscriptionGroupConfig], version: DataVersion) -> dict[str, Any]:
    """The group table with its version."""
    table = {name: group_json(group) for name, group in groups.items()}
    return {"dataVersion": version_json(version), "subscriptionGroupTable": table}


def read_groups(value: Any) -> tuple[dict[str, SubscriptionGroupConfig], DataVersion]:
    """The group table and its version. Raises RemoteProtocolError."""
    groups = {}
    for name, found in _table(value, "subscriptionGroupTable").items():
        groups[name] = read_group({"groupName": name} | found if isinstance(found, dict) else found)
    return groups, _version(value)


def read_group(value: Any) -> SubscriptionGroupConfig:
    """One group's settings. Raises RemoteProtocolError."""
    if not isinstance(value, dict) or not isinstance(value.get("groupName"), str):
        raise RemoteProtocolError("a consumer group's settings without groupName")
    try:
        return SubscriptionGroupConfig(
            value["groupName"],
            bool(value.get("consumeEnable", True)),
            bool(value.get("consumeFromMinEnable", True)),
            bool(value.get("consumeBroadcastEnable", True)),
            int(value.get("retryQueueNums", 1)),
            int(value.get("retryMaxTimes", 16)),
            int(value.get("brokerId", 0)),
            int(value.get("whichBrokerWhenConsumeSlowly", 1)),
            bool(value.get("notifyConsumerIdsChangedEnable", True)),
        )
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(f"group {value['groupName']!r}: {error}") from None


def _table(value: Any, key: str) -> dict[str, Any]:
    table = value.get(key) if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise RemoteProtocolError(f"no {key} in it")
    return table


def _version(value: Any) -> DataVersion:
    found = value.get("dataVersion")
    try:
        return DataVersion(int(found["timestamp"]), int(found["counter"])) if found else DataVersion()
    except (KeyError, TypeError, ValueError):
        raise RemoteProtocolError(f"dataVersion {found!r} is none") from None
