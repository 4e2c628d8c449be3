"""The kinds of topics by which lists are filtered, known from their names."""

from headrace.model import names

NORMAL, RETRY, DEAD_LETTER, SYSTEM = "normal", "retry", "dead-letter", "system"


def topic_kind(topic: str, system: frozenset[str] = frozenset()) -> str:
    """The kind of a topic; `system` are the names that brokers report as RocketMQ's own."""
    if topic.startswith(names.RETRY_PREFIX):
        return RETRY
    if topic.startswith(names.DLQ_PREFIX):
        return DEAD_LETTER
    if topic in system or names.is_system_topic(topic):
        return SYSTEM
    return NORMAL
