"""Which queue a message goes to: the next in turn, by a key, or chosen by a selector (client spec 2.4, 2.9)."""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from headrace.client.cluster.routes import Route
from headrace.client.sending.fault_tolerance import FaultTolerance
from headrace.model.java_hash import string_hash
from headrace.model.message import Message
from headrace.model.message_queue import MessageQueue

QueueSelector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
"""Returns one of the topic's queues, given the queues, the message and the `key` of the send."""


class Destination(NamedTuple):
    """What the caller specified about the queue. By default the topic's queues are used in turn."""

    queue: MessageQueue | None = None
    sharding_key: Any = None
    selector: QueueSelector | None = None
    key: Any = None


def java_hash(key: Any) -> int:
    """Returns Java's hash code of a string, an integer or a boolean; for anything else, of its string."""
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int):
        if -(1 << 31) <= key < 1 << 31:
            return key
        low = (key ^ (key >> 32)) & 0xFFFFFFFF
        return low - (1 << 32) if low & 0x80000000 else low
    return string_hash(key if isinstance(key, str) else str(key))


def by_hash(queues: Sequence[MessageQueue], _message: Message, key: Any) -> MessageQueue:
    """Returns the queue that Java's SelectMessageQueueByHash chooses: the same for the same key, as long as the queues do not change."""
    # compat: Java truncates the remainder toward zero and takes its absolute value, which is the remainder of the absolute value.
    return queues[abs(java_hash(key)) % len(queues)]


def by_random(queues: Sequence[MessageQueue], _message: Message, _key: Any) -> MessageQueue:
    """Returns a random queue."""
    return random.choice(queues)


class QueueTurn:
    """Round robin over a topic's queues, starting at a random one. `before`: the turn over an older route, which this one continues."""

    __slots__ = ("_at", "queues", "route")

    def __init__(self, route: Route, before: "QueueTurn | None" = None) -> None:
        self.route = route
        self.queues = route.publish_queues
        self._at: int = random.randrange(1 << 16) if before is None else before._at  # noqa: SLF001 (another of its kind)

    def next(self, avoid: str | None = None) -> MessageQueue:
        """Returns the next queue, of another broker than `avoid` if there is one."""
        queues = self.queues
        if avoid is not None:
            for _ in queues:
                self._at += 1
                queue = queues[self._at % len(queues)]
                if queue.broker_name != avoid:
                    return queue
        self._at += 1
        return queues[self._at % len(queues)]

    def next_index(self) -> int:
        """Returns the index of the next queue in `queues`."""
        self._at += 1
        return self._at % len(self.queues)

    def next_available(self, faults: FaultTolerance, now_ms: int) -> MessageQueue:
        """Returns the next queue of a broker that need not be avoided; if there is none, of one of the better brokers."""
        for _ in self.queues:
            queue = self.next()
            if faults.is_available(queue.broker_name, now_ms):
                return queue
        chosen = faults.pick_at_least(now_ms)
        if chosen is not None:
            of_broker = [queue for queue in self.queues if queue.broker_name == chosen]
            if of_broker:
                self._at += 1
                return of_broker[self._at % len(of_broker)]
            faults.forget(chosen)
        return self.next()
