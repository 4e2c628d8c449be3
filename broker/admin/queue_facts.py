"""QueueFacts: the bounds of queues and the store times of messages, for admin requests.

The two questions are functions that the composition root gives, so that nothing here knows files.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.message_queue import MessageQueue

NO_TIME = -1
"""What `store_time` says of a message that is missing."""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """Questions about queues of this broker.

    `bounds(topic, queue_id)` is the first queue offset and one past the last, (0, 0) for a queue never written;
    `store_time(topic, queue_id, queue_offset)` is ms, -1 if there is no such message.
    """

    broker_name: str
    bounds: Callable[[str, int], tuple[int, int]]
    store_time: Callable[[str, int, int], int]

    def queue(self, topic: str, queue_id: int) -> MessageQueue:
        """The queue by its full name."""
        return MessageQueue(topic, self.broker_name, queue_id)
