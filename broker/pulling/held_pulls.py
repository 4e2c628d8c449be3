"""HeldPulls: the table of held pulls by queue and by deadline; expires the deadlines that `LongPolling.hold` sets (store spec 13.5).

Dispatch rings when rows of the queue table have changed, and names the rows in a ring, so the cost of a bell does not grow
with the number of held pulls. A pull is tried again when its queue has grown, and answered at its deadline in any case.

A pull is dropped when its connection is lost, and the pulls of a connection, and of all, are limited.

Deadlines are rounded up to tenths of a second. A busy queue answers its pulls long before their deadlines, so an answered pull
must not stay in memory until then.
"""

import heapq
import math
from collections.abc import Callable, Iterable

from msgspec import Struct

QueueKey = tuple[str, int]

_TICKS_PER_S = 10


class HeldPull(Struct, eq=False):
    """A held pull. `try_again(last)` answers it if it can, and must if `last`; it returns whether it did."""

    queue: QueueKey
    deadline: float
    try_again: Callable[[bool], bool]
    owner: object = None
    """Its connection."""

    @property
    def tick(self) -> int:
        """The deadline in tenths of a second, rounded up."""
        return math.ceil(self.deadline * _TICKS_PER_S)


class HeldPulls:
    """All held pulls. Deadlines are the loop's time, in seconds.

    `on_hold()` is called after each `hold`: from then on dispatch must ring the broker.
    """

    def __init__(self, on_hold: Callable[[], object] = lambda: None) -> None:
        self._on_hold = on_hold
        self._by_owner: dict[object, dict[HeldPull, None]] = {}
        self._by_queue: dict[QueueKey, dict[HeldPull, None]] = {}
        self._by_tick: dict[int, dict[HeldPull, None]] = {}
        self._ticks: list[int] = []
        self.size = 0
        """How many are held. Not a length, because it is asked for with every wake-up, and a call takes longer."""

    def count_of(self, owner: object) -> int:
        """How many pulls of a connection are held."""
        return len(self._by_owner.get(owner, ()))

    def drop(self, owner: object) -> None:
        """Forgets the pulls of a connection that is lost."""
        for pull in list(self._by_owner.get(owner, ())):
            self._forget(pull)

    def hold(self, pull: HeldPull) -> None:
        """Holds the pull until it is answered."""
        self._by_owner.setdefault(pull.owner, {})[pull] = None
        self._by_queue.setdefault(pull.queue, {})[pull] = None
        tick = pull.tick
        if tick not in self._by_tick:
            self._by_tick[tick] = {}
            heapq.heappush(self._ticks, tick)
        self._by_tick[tick][pull] = None
        self.size += 1
        self._on_hold()

    def queues(self) -> list[QueueKey]:
        """The queues of held pulls."""
        return list(self._by_queue)

    def arrived(self, queues: Iterable[QueueKey]) -> None:
        """Tries the pulls of queues that have grown."""
        for queue in queues:
            for pull in list(self._by_queue.get(queue, ())):
                if pull.try_again(False):
                    self._forget(pull)

    def expire(self, now: float) -> None:
        """Answers the pulls whose deadline has passed."""
        tick = math.floor(now * _TICKS_PER_S)
        while self._ticks and self._ticks[0] <= tick:
            # The tick stays until its pulls are answered: an answer may cause another pull of the same tick.
            for pull in list(self._by_tick[self._ticks[0]]):
                pull.try_again(True)
                self._forget(pull)
            if not self._by_tick[self._ticks[0]]:
                del self._by_tick[heapq.heappop(self._ticks)]

    def next_deadline(self) -> float | None:
        """When `expire` is due, in the loop's time, at most a tenth of a second after the first deadline."""
        while self._ticks and not self._by_tick[self._ticks[0]]:
            del self._by_tick[heapq.heappop(self._ticks)]
        return self._ticks[0] / _TICKS_PER_S if self._ticks else None

    def _forget(self, pull: HeldPull) -> None:
        pulls = self._by_queue.get(pull.queue)
        if pulls is None or pull not in pulls:
            return  # answered already, as a consequence of another answer
        del pulls[pull]
        if not pulls:
            del self._by_queue[pull.queue]
        of_owner = self._by_owner[pull.owner]
        del of_owner[pull]
        if not of_owner:
            del self._by_owner[pull.owner]
        del self._by_tick[pull.tick][pull]
        self.size -= 1
