"""QueueFacts: the bounds of queues and the store times of messages, for admin requests.

The composition root provides both as functions, so that nothing here depends on files.
"""

from collections.abc import Callable

from msgspec import Struct

from headrace.model.message_queue import MessageQueue

NO_TIME = -1
"""The result of `store_time` for a missing message."""


class QueueFacts(Struct, frozen=True):
    """Facts about this broker's queues.

    `bounds(topic, queue_id)` is the first queue offset and one past the last, (0, 0) for a queue never written;
    `store_time(topic, queue_id, queue_offset)` is ms, -1 if there is no such message.
    """

    broker_name: str
    bounds: Callable[[str, int], tuple[int, int]]
    store_time: Callable[[str, int, int], int]

    def queue(self, topic: str, queue_id: int) -> MessageQueue:
        """The queue by its full name."""
        return MessageQueue(topic, self.broker_name, queue_id)
