"""Subscriptions: expressions as users write them, and a consumer's subscriptions by topic (client spec 3.2).

"paid || shipped", Tags("paid", "shipped")    messages with one of these tags
Sql("amount > 100 AND region = 'eu'")         messages whose properties match; brokers need enablePropertyFilter
FilterFunction("large-orders")                messages that a function at the broker selects; Headrace brokers only
"*"                                           all messages
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from headrace.client.durations import now_ms
from headrace.errors import ConfigError
from headrace.model.names import topic_problem
from headrace.model.subscription import ALL, PYTHON, SQL92, TAG, SubscriptionData, is_tag_type


class Tags(str):
    """Messages with one of these tags: `Tags("paid", "shipped")` is the expression `paid || shipped`."""

    __slots__ = ()

    def __new__(cls, *tags: str) -> "Tags":
        """Raises ConfigError if there is no tag, or one is blank or contains `||`."""
        if not tags or any(not tag.strip() or "||" in tag for tag in tags):
            raise ConfigError(f"Tags{tags!r}: expected at least one tag, none blank and none with ||", "expression")
        return super().__new__(cls, " || ".join(tags))


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL92 expression over a message's properties, evaluated by brokers with enablePropertyFilter."""

    expression: str


@dataclass(frozen=True, slots=True)
class FilterFunction:
    """Messages that a Python function selects, which Headrace brokers have installed under this name and run.

        consumer.subscribe("Orders", FilterFunction("large-orders"), handle)

    An operator installs it with `headrace filter put large-orders.py`; it contains `def wants(message): ...`, which gets the whole message with its body
    and returns True or False. A broker without a function of this name rejects the subscription: the start fails with ConfigError.
    """

    name: str


Expression: TypeAlias = str | Sql | FilterFunction | None


def subscription_of(topic: str, expression: Expression = ALL) -> SubscriptionData:
    """Returns the subscription of a topic (with the namespace), as of now. Raises ConfigError for an invalid topic or expression."""
    problem = topic_problem(topic)
    if problem is not None:
        raise ConfigError(problem, "topic")
    if isinstance(expression, Sql):
        if not expression.expression.strip():
            raise ConfigError(f"the SQL expression for {topic} is empty", "expression")
        return SubscriptionData.build(topic, expression.expression, SQL92)
    if isinstance(expression, FilterFunction):
        if not expression.name.strip():
            raise ConfigError(f"the filter function for {topic} has no name", "expression")
        return SubscriptionData.build(topic, expression.name, PYTHON)
    try:
        return SubscriptionData.build(topic, expression, TAG)
    except ValueError as error:
        raise ConfigError(f"{topic}: {error}", "expression") from error


def for_single_pull(subscription: SubscriptionData) -> SubscriptionData:
    """Returns the subscription for pulls that carry their expression: tags have no version then, as in the Java client."""
    return replace(subscription, sub_version=0) if is_tag_type(subscription.expression_type) else subscription


class Subscriptions:
    """The subscriptions of one consumer, by topic."""

    def __init__(self) -> None:
        self._by_topic: dict[str, SubscriptionData] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._by_topic

    def __len__(self) -> int:
        return len(self._by_topic)

    def get(self, topic: str) -> SubscriptionData | None:
        """Returns the subscription of a topic, None if there is none."""
        return self._by_topic.get(topic)

    def put(self, subscription: SubscriptionData) -> None:
        """Subscribes, replacing the topic's subscription."""
        known = self._by_topic.get(subscription.topic)
        if known is not None and subscription.sub_version <= known.sub_version:
            # Brokers accept an expression only if its version is greater.
            subscription = replace(subscription, sub_version=known.sub_version + 1)
        self._by_topic[subscription.topic] = subscription

    def remove(self, topic: str) -> None:
        """Ends a subscription."""
        self._by_topic.pop(topic, None)

    def touch(self, topic: str) -> None:
        """Gives a subscription a new version, as clients do when their queues have changed."""
        known = self._by_topic.get(topic)
        if known is not None:
            self._by_topic[topic] = replace(known, sub_version=max(now_ms(), known.sub_version + 1))

    def topics(self) -> Collection[str]:
        """Returns the subscribed topics."""
        return list(self._by_topic)

    def all(self) -> list[SubscriptionData]:
        """Returns the subscriptions."""
        return list(self._by_topic.values())
