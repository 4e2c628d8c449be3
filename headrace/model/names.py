"""Names of topics and groups: RocketMQ's own, derived names, and the rules for valid names (remoting spec 4.2, 4.4)."""

import re
from typing import Final

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
REPLY_TOPIC_POSTFIX: Final = "REPLY_TOPIC"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
LMQ_PREFIX: Final = "%LMQ%"

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRANSACTION_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANSACTION_OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANSACTION_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT_TOPIC: Final = "OFFSET_MOVED_EVENT"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"

TOOLS_CONSUMER_GROUP: Final = "TOOLS_CONSUMER"
FILTER_SERVER_GROUP: Final = "FILTERSRV_CONSUMER"
SELF_TEST_GROUP: Final = "SELF_TEST_C_GROUP"
ONS_HTTP_PROXY_GROUP: Final = "CID_ONS-HTTP-PROXY"
ONS_API_PULL_GROUP: Final = "CID_ONSAPI_PULL"
ONS_API_PERMISSION_GROUP: Final = "CID_ONSAPI_PERMISSION"
ONS_API_OWNER_GROUP: Final = "CID_ONSAPI_OWNER"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
CLIENT_INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
MONITOR_GROUP: Final = "__MONITOR_CONSUMER"

SYSTEM_GROUPS: Final = (
    TOOLS_CONSUMER_GROUP,
    FILTER_SERVER_GROUP,
    SELF_TEST_GROUP,
    ONS_HTTP_PROXY_GROUP,
    ONS_API_PULL_GROUP,
    ONS_API_PERMISSION_GROUP,
    ONS_API_OWNER_GROUP,
)
"""Groups that a broker has when it is new."""

SYSTEM_TOPICS: Final = frozenset({
    AUTO_CREATE_TOPIC, SCHEDULE_TOPIC, BENCHMARK_TOPIC, TRANSACTION_HALF_TOPIC, TRACE_TOPIC, TRANSACTION_OP_HALF_TOPIC,
    TRANSACTION_CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_EVENT_TOPIC,
})  # fmt: skip
"""Topics that admin requests may not create, change or delete; a broker adds its own name, its cluster's and the reply topic's."""

FORBIDDEN_TO_SEND: Final = frozenset({
    SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_HALF_TOPIC, TRANSACTION_CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC,
    OFFSET_MOVED_EVENT_TOPIC, TIMER_TOPIC,
})  # fmt: skip
"""Topics that clients may not send to."""

ORDER_TOPIC_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""The KV namespace with a built-in meaning: ordered topics and their queues."""

MAX_TOPIC_LENGTH: Final = 127
MAX_GROUP_LENGTH: Final = 255

MASTER_ID: Final = 0
"""The broker id of a master; slaves have other ids."""

_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


def retry_topic(group: str) -> str:
    """Returns the topic for messages that the group retries."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Returns the topic of the group's dead letters."""
    return DLQ_PREFIX + group


def reply_topic(cluster_name: str) -> str:
    """Returns the topic for replies of request-reply in a cluster."""
    return f"{cluster_name}_{REPLY_TOPIC_POSTFIX}"


def is_retry_topic(topic: str) -> bool:
    """Whether the topic is a group's retry topic."""
    return topic.startswith(RETRY_PREFIX)


def group_of_retry_topic(topic: str) -> str:
    """Returns the group of a retry topic."""
    return topic.removeprefix(RETRY_PREFIX)


def is_system_topic(topic: str) -> bool:
    """Whether the topic is RocketMQ's own, whatever the broker's name; see SYSTEM_TOPICS."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Whether the group may be created implicitly: its name shows that it belongs to RocketMQ."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def topic_problem(topic: str | None) -> str | None:
    """Returns what is wrong with a topic's name, as a sentence; None if it is valid."""
    if topic is None or not topic.strip():
        return "The specified topic is blank."
    if not _LEGAL.fullmatch(topic):
        return f"The specified topic {topic!r} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(topic) > MAX_TOPIC_LENGTH:
        return f"The specified topic is longer than topic max length {MAX_TOPIC_LENGTH}."
    return None


def group_problem(group: str | None) -> str | None:
    """Returns what is wrong with a group's name, as a sentence; None if it is valid. Only clients check this."""
    if group is None or not group.strip():
        return "The specified group is blank."
    if not _LEGAL.fullmatch(group):
        return f"The specified group {group!r} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(group) > MAX_GROUP_LENGTH:
        return f"The specified group is longer than group max length {MAX_GROUP_LENGTH}."
    return None
