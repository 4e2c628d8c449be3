"""Groups whose members have different subscriptions.

The members of a group divide its queues, each by its own subscription, and the broker keeps one subscription per group:
the last one. Members with different subscriptions receive each other's messages and lose them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from broker.clients.clients import ConsumerGroup, Membership
from broker.findings.finding import Finding
from headrace.model.names import is_retry_topic, is_system_group
from headrace.model.subscription import ALL, SubscriptionData, is_tag_type

KIND = "different subscriptions"

_MOST_NAMED = 5  # limit: members of each side that are named; the others are counted


def differing_members(groups: Iterable[ConsumerGroup], now_ms: int) -> Iterator[Finding]:
    """A finding for each group whose members subscribe differently or differ in their message model."""
    for group in groups:
        if len(group.members) < 2 or is_system_group(group.name):
            continue
        sides: dict[str, list[str]] = defaultdict(list)
        for client in group.live_clients(now_ms):
            wish = wish_of(group.members[client.connection])
            sides[wish].append(f"{client.client_id} at {client.connection.remote}")
        if len(sides) > 1:
            yield Finding(
                group.name,
                KIND,
                "",
                f"its members have different subscriptions: {len(sides)} variants among {sum(map(len, sides.values()))} members",
                tuple(_side(wish, sides[wish]) for wish in sorted(sides)),
                (),
                "subscribe all members to the same topics with the same expressions, or use a separate group for the others;"
                " until then the group loses messages",
            )


def wish_of(member: Membership) -> str:
    """A member's subscriptions as text; equal for equivalent subscriptions. Its retry topic is omitted."""
    wishes = sorted(
        f"{subscription.topic} ({_expression(subscription)})"
        for subscription in member.subscriptions
        if not is_retry_topic(subscription.topic)
    )
    return f"{', '.join(wishes) or 'nothing'}, {member.message_model.lower()}"


def _expression(subscription: SubscriptionData) -> str:
    if not is_tag_type(subscription.expression_type):
        return f"{subscription.expression_type}: {subscription.sub_string}"
    tags = " || ".join(sorted({tag.strip() for tag in subscription.sub_string.split("||") if tag.strip()}))
    return tags or ALL


def _side(wish: str, names: list[str]) -> str:
    others = len(names) - _MOST_NAMED
    who = ", ".join(sorted(names)[:_MOST_NAMED]) + (f" and {others} more" if others > 0 else "")
    return f"{who}: {wish}"
