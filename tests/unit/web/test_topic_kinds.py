"""The kinds of topics, and that system topics stay protected whatever their kind."""

import pytest

from headrace.model import names
from web.cluster.topic_kinds import DEAD_LETTER, DELAY, NORMAL, RESERVED, RETRY, SYSTEM, TRANSACTION, topic_kind
from web.pages.topics import KINDS


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("Orders", NORMAL),
        ("%RETRY%billing", RETRY),
        ("%DLQ%billing", DEAD_LETTER),
        (names.SCHEDULE_TOPIC, DELAY),
        (names.TIMER_TOPIC, DELAY),
        (names.TRANSACTION_HALF_TOPIC, TRANSACTION),
        (names.TRANSACTION_OP_HALF_TOPIC, TRANSACTION),
        (names.TRANSACTION_CHECK_MAX_TIME_TOPIC, TRANSACTION),
        (names.AUTO_CREATE_TOPIC, SYSTEM),
        ("DefaultCluster", SYSTEM),
    ],
)
def test_kind_of_a_topic_is_known_from_its_name(topic: str, kind: str) -> None:
    assert topic_kind(topic, frozenset({"DefaultCluster"})) == kind
    assert kind in [value for value, _ in KINDS.values]


@pytest.mark.parametrize("topic", sorted({*names.SYSTEM_TOPICS, names.TIMER_TOPIC}))
def test_rocketmq_s_own_topics_are_of_reserved_kinds(topic: str) -> None:
    assert topic_kind(topic) in RESERVED
