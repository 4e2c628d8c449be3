"""Protection of what is RocketMQ's own: the console changes neither system topics nor system groups."""

from headrace.model import names
from web.cluster.topic_kinds import RESERVED, topic_kind
from web.errors import Invalid

_ADVICE = "Brokers need it as it is. If it must be changed all the same, use mqadmin."


def is_system_group(group: str) -> bool:
    """Whether the group is one of RocketMQ's own."""
    return group in names.SYSTEM_GROUPS or names.is_system_group(group)


def check_group(group: str) -> None:
    """Raises Invalid for a system group."""
    if is_system_group(group):
        raise Invalid("the group {group} is a system group and cannot be changed here", _ADVICE, group=group)


def check_topic(topic: str, system: frozenset[str]) -> None:
    """Raises Invalid for a system topic. `system` are the names that brokers report as their own."""
    if topic_kind(topic, system) in RESERVED:
        raise Invalid("the topic {topic} is a system topic and cannot be changed here", _ADVICE, topic=topic)
