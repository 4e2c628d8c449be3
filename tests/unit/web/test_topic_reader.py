"""What the pages of topics compute from answers of brokers."""

import pytest

from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies.stats import TopicOffset
from web.cluster.topic_reader import lag_of

QUEUES = {
    MessageQueue("T", "a", queue): TopicOffset(low, high, 0)
    for queue, (low, high) in enumerate([(0, 9), (2, 5), (0, 0)])
}


@pytest.mark.parametrize(
    ("offsets", "lag"), [((9, 5, 0), 0), ((4, 5, 0), 5), ((4, 0, 0), 8), ((9,), 3), ((), 12), ((20, 9, 1), 0)]
)
def test_lag_counts_all_messages_of_queues_without_a_stored_offset(offsets: tuple[int, ...], lag: int) -> None:
    assert lag_of(QUEUES, {MessageQueue("T", "a", queue): offset for queue, offset in enumerate(offsets)}) == lag
