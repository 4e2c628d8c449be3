"""Pulls that found nothing and wait for a message (long polling; store spec 13.5).

The key of a held pull is its queue. Dispatch rings when rows of the queue table have moved and names them in a ring, so
what a bell costs does not grow with the number of pulls that wait. A pull is tried again when its queue has grown, and
answered at its deadline in any case; whether a message matches is decided by trying.

Deadlines are kept by tenths of a second: a busy queue answers its pulls long before, and what was answered must not lie
about until its deadline.
"""

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

QueueKey = tuple[str, int]

_TICKS_PER_S = 10


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull that waits. `try_again(last)` answers it if it can, and must if `last`; it says whether it has."""

    queue: QueueKey
    deadline: float
    try_again: Callable[[bool], bool]

    @property
    def tick(self) -> int:
        """The deadline in tenths of a second, rounded up."""
        return math.ceil(self.deadline * _TICKS_PER_S)


class HeldPulls:
    """All pulls that wait, by queue and by deadline (the loop's time in seconds).

    `on_hold()` is called when one has begun to wait: from then on the broker must be rung.
    """

    def __init__(self, on_hold: Callable[[], object] = lambda: None) -> None:
        self._on_hold = on_hold
        self._by_queue: dict[QueueKey, dict[HeldPull, None]] = {}
        self._by_tick: dict[int, dict[HeldPull, None]] = {}
        self._ticks: list[int] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def hold(self, pull: HeldPull) -> None:
        """Keeps the pull until it says that it is answered."""
        self._by_queue.setdefault(pull.queue, {})[pull] = None
        tick = pull.tick
        if tick not in self._by_tick:
            self._by_tick[tick] = {}
            heapq.heappush(self._ticks, tick)
        self._by_tick[tick][pull] = None
        self._size += 1
        self._on_hold()

    def queues(self) -> list[QueueKey]:
        """The queues for which a pull waits."""
        return list(self._by_queue)

    def arrived(self, queues: Iterable[QueueKey]) -> None:
        """Tries the pulls of queues that have grown."""
        for queue in queues:
            for pull in list(self._by_queue.get(queue, ())):
                if pull.try_again(False):
                    self._forget(pull)

    def expire(self, now: float) -> None:
        """Answers those whose deadline has passed."""
        tick = math.floor(now * _TICKS_PER_S)
        while self._ticks and self._ticks[0] <= tick:
            # The tick stays in its place until its pulls are answered: an answer may bring another pull of the same tick.
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
            return  # answered by what another's answer set off
        del pulls[pull]
        if not pulls:
            del self._by_queue[pull.queue]
        del self._by_tick[pull.tick][pull]
        self._size -= 1
