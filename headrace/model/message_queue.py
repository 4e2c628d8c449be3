"""One queue of a topic at one broker."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class MessageQueue:
    """A queue: hashable, and ordered by topic, broker name and queue id, as clients sort queues before they divide them."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        # compat: consistent hashing in consumers hashes this text.
        return f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, queueId={self.queue_id}]"
