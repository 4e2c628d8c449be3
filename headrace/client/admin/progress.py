"""The progress of a consumer group, as `consumer_progress` returns it, and how a reset would change it."""

from dataclasses import dataclass

from headrace.model.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """One queue: the broker's next offset, the group's offset, the store time (ms) of the last message consumed, and the member that reads it."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    last_timestamp: int
    client_id: str | None = None

    @property
    def lag(self) -> int:
        """How many messages the group is behind."""
        return self.broker_offset - self.consumer_offset


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """A group: its queues, and how many messages it consumes per second."""

    group: str
    queues: list[QueueProgress]
    consume_tps: float

    @property
    def lag(self) -> int:
        """How many messages the group is behind in total."""
        return sum(one.lag for one in self.queues)


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """One queue in a preview: its bounds, the group's stored offset (None: it has none), and the offset after the reset."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    stored_offset: int | None
    target_offset: int

    @property
    def skipped(self) -> int:
        """How many stored messages the group would not receive; negative if it would receive messages again."""
        stored = self.stored_offset if self.stored_offset is not None else self.min_offset
        return max(self.target_offset, self.min_offset) - max(stored, self.min_offset)
