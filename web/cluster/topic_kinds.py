"""The kinds of topics by which lists are filtered, known from their names."""

from typing import Final

from headrace.model import names

NORMAL, RETRY, DEAD_LETTER = "normal", "retry", "dead-letter"
DELAY, TRANSACTION, SYSTEM = "delay", "transaction", "system"
RESERVED: Final = frozenset({DELAY, TRANSACTION, SYSTEM})
"""The kinds of RocketMQ's own topics: waiting messages with delay levels and timers, half messages and what resolves them, and the others."""
_DELAY: Final = frozenset({names.SCHEDULE_TOPIC, names.TIMER_TOPIC})
_TRANSACTION: Final = frozenset({
    names.TRANSACTION_HALF_TOPIC, names.TRANSACTION_OP_HALF_TOPIC, names.TRANSACTION_CHECK_MAX_TIME_TOPIC
})  # fmt: skip


def topic_kind(topic: str, system: frozenset[str] = frozenset()) -> str:
    """The kind of a topic; `system` are the names that brokers report as RocketMQ's own."""
    if topic.startswith(names.RETRY_PREFIX):
        return RETRY
    if topic.startswith(names.DLQ_PREFIX):
        return DEAD_LETTER
    if topic in _DELAY:
        return DELAY
    if topic in _TRANSACTION:
        return TRANSACTION
    if topic in system or names.is_system_topic(topic):
        return SYSTEM
    return NORMAL
