"""Queues of subscribed topics that no member of a group consumes.

The members decide by themselves which of them consumes a queue. If they disagree (shared ids, an outdated list of members, a strategy that
omits queues), no member pulls the messages of a queue. Only clustering groups divide queues; pull consumers may choose queues, so
for them a queue counts only if the group consumes others of the same topic.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from broker.clients.clients import ConsumerGroup
from broker.findings.finding import Finding
from headrace.model.consumption import ConsumeType, MessageModel
from headrace.model.names import is_system_group

KIND = "queues without an owner"

GRACE_S = 40.0
"""Two rounds of rebalancing, 20 s each."""


def unowned_queues(
    groups: Iterable[ConsumerGroup],
    read_queues: Callable[[str], int],
    visits: Callable[[str, str], Mapping[int, float]],
    now_s: float,
) -> Iterator[Finding]:
    """A finding for each topic of a group with such queues. `read_queues(topic)`: the number of read queues, 0 for none.

    `visits(group, topic)` are the times of the last visits; `now_s` and `ConsumerGroup.wanted_since_s` are of the same clock.
    """
    for group in groups:
        if group.message_model != MessageModel.CLUSTERING or is_system_group(group.name):
            continue
        for topic in group.subscriptions:
            since_s = group.wanted_since_s.get(topic, now_s)
            if now_s - since_s < GRACE_S:
                continue
            seen = visits(group.name, topic)
            silent = tuple(
                queue_id
                for queue_id in range(read_queues(topic))
                if now_s - max(seen.get(queue_id, since_s), since_s) >= GRACE_S
            )
            if silent and not (
                group.consume_type == ConsumeType.CONSUME_ACTIVELY and len(silent) == read_queues(topic)
            ):
                yield Finding(
                    group.name,
                    KIND,
                    topic,
                    f"{_queues(silent)} of {topic} had no consumer for {GRACE_S:.0f} s, although {_members(group)} online",
                    (),
                    silent,
                    "run `mqadmin consumerProgress -g GROUP` to see whether messages are waiting, and `mqadmin consumerStatus -g GROUP` to see the"
                    " assignment; restart members with too few queues",
                )


def _queues(ids: tuple[int, ...]) -> str:
    return f"queue {ids[0]}" if len(ids) == 1 else f"queues {', '.join(map(str, ids))}"


def _members(group: ConsumerGroup) -> str:
    count = len(group.clients)
    return "1 member is" if count == 1 else f"{count} members are"
