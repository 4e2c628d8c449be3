"""What a consumer subscribes: expressions as users write them, and the table of them by topic (client spec 3.2).

"paid || shipped", Tags("paid", "shipped")    messages with one of these tags
Sql("amount > 100 AND region = 'eu'")         messages whose properties fit; brokers need enablePropertyFilter
FilterFunction("large-orders")                messages that a function at the broker wants; Headrace brokers only
"*"                                           all
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TypeAlias

from headrace.client.durations import now_ms
from headrace.errors import ConfigError
from headrace.model.names import topic_problem
from headrace.model.subscription import ALL, PYTHON, SQL92, TAG, SubscriptionData, is_tag_type


class Tags(str):
    """The tags wanted: `Tags("paid", "shipped")` is the expression `paid || shipped`."""

    __slots__ = ()

    def __new__(cls, *tags: str) -> "Tags":
        """Raises ConfigError without a tag, or for one with `||` in it."""
        if not tags or any(not tag.strip() or "||" in tag for tag in tags):
            raise ConfigError(f"not a list of tags: {tags!r}", "expression")
        return super().__new__(cls, " || ".join(tags))


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL92 expression over a message's properties, which brokers with enablePropertyFilter evaluate."""

    expression: str


@dataclass(frozen=True, slots=True)
class FilterFunction:
    """The messages that a function in Python wants, which the brokers have under this name and run: Headrace brokers, no others.

        consumer.subscribe("Orders", FilterFunction("large-orders"), handle)

    An operator puts it there: `headrace filter put large-orders.py`, with `def wants(message): ...` in it, which answers True or False and is given
    the whole message, the body too. A broker that has no function of this name, or runs none, refuses the subscription: the start fails with ConfigError.
    """

    name: str


Expression: TypeAlias = str | Sql | FilterFunction | None


def subscription_of(topic: str, expression: Expression = ALL) -> SubscriptionData:
    """The subscription of a topic (with the namespace), as of now. Raises ConfigError for a topic or an expression that cannot be used."""
    problem = topic_problem(topic)
    if problem is not None:
        raise ConfigError(problem, "topic")
    if isinstance(expression, Sql):
        if not expression.expression.strip():
            raise ConfigError(f"an SQL expression for {topic} without any text", "expression")
        return SubscriptionData.build(topic, expression.expression, SQL92)
    if isinstance(expression, FilterFunction):
        if not expression.name.strip():
            raise ConfigError(f"a filter function for {topic} without a name", "expression")
        return SubscriptionData.build(topic, expression.name, PYTHON)
    try:
        return SubscriptionData.build(topic, expression, TAG)
    except ValueError as error:
        raise ConfigError(f"{topic}: {error}", "expression") from error


def for_single_pull(subscription: SubscriptionData) -> SubscriptionData:
    """The subscription as it goes with pulls that carry their expression: tags have no version then, as in the Java client."""
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
        """The subscription of a topic, None if there is none (any more)."""
        return self._by_topic.get(topic)

    def put(self, subscription: SubscriptionData) -> None:
        """Subscribes, in place of what was subscribed of the topic."""
        known = self._by_topic.get(subscription.topic)
        if known is not None and subscription.sub_version <= known.sub_version:
            # Brokers take an expression over only if its version is greater.
            subscription = replace(subscription, sub_version=known.sub_version + 1)
        self._by_topic[subscription.topic] = subscription

    def remove(self, topic: str) -> None:
        """Ends a subscription."""
        self._by_topic.pop(topic, None)

    def touch(self, topic: str) -> None:
        """Gives a subscription the version of now, as clients do when their queues have changed."""
        known = self._by_topic.get(topic)
        if known is not None:
            self._by_topic[topic] = replace(known, sub_version=max(now_ms(), known.sub_version + 1))

    def topics(self) -> Collection[str]:
        """The topics subscribed."""
        return list(self._by_topic)

    def all(self) -> list[SubscriptionData]:
        """The subscriptions."""
        return list(self._by_topic.values())
