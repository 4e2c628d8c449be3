"""What the pages of topics compute from answers of brokers."""

import pytest

from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies.stats import TopicOffset
from web.cluster.topic_reader import GroupOffsets

QUEUES = {
    MessageQueue("T", "a", queue): TopicOffset(low, high, 0)
    for queue, (low, high) in enumerate([(0, 9), (2, 5), (0, 0)])
}


def offsets_of_g(*offsets: int, brokers: frozenset[str] = frozenset("a")) -> GroupOffsets:
    """The stored offsets of the group g, from queue 0 on."""
    stored = {MessageQueue("T", "a", queue): offset for queue, offset in enumerate(offsets)}
    return GroupOffsets({"T": {"g": stored}}, brokers, [])


@pytest.mark.parametrize(
    ("offsets", "lag"), [((9, 5, 0), 0), ((4, 5, 0), 5), ((4, 0, 0), 8), ((9,), 3), ((), 12), ((20, 9, 1), 0)]
)
def test_lag_counts_all_messages_of_queues_without_a_stored_offset(offsets: tuple[int, ...], lag: int) -> None:
    assert offsets_of_g(*offsets).lags("T", QUEUES) == {"g": lag}


def test_queues_of_a_broker_that_did_not_answer_do_not_count() -> None:
    queues = QUEUES | {MessageQueue("T", "b", 0): TopicOffset(0, 10_000_000, 0)}
    assert offsets_of_g(4, 5, 0).lags("T", queues) == {"g": 5}
    assert offsets_of_g(4, 5, 0, brokers=frozenset("ab")).lags("T", queues) == {"g": 10_000_005}
    assert offsets_of_g().lags("Other", queues) == {}
