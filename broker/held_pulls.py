"""Pulls that found nothing and wait for a message (long polling; store spec 13.5).

The key of a held pull is its queue. Dispatch rings when rows of the queue table have moved and names them in a ring, so
what a bell costs does not grow with the number of pulls that wait. A pull is tried again when its queue has grown, and
answered at its deadline in any case; whether a message matches is decided by trying.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

QueueKey = tuple[str, int]


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull that waits. `try_again(last)` answers it if it can, and must if `last`; it says whether it has."""

    queue: QueueKey
    deadline: float
    try_again: Callable[[bool], bool]
    is_done: bool = field(default=False)


class HeldPulls:
    """All pulls that wait, by queue and by deadline (the loop's time in seconds)."""

    def __init__(self) -> None:
        self._by_queue: dict[QueueKey, list[HeldPull]] = {}
        self._by_deadline: list[tuple[float, int, HeldPull]] = []
        self._count = itertools.count()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def hold(self, pull: HeldPull) -> None:
        """Keeps the pull until it says that it is answered."""
        self._by_queue.setdefault(pull.queue, []).append(pull)
        heapq.heappush(self._by_deadline, (pull.deadline, next(self._count), pull))
        self._size += 1

    def queues(self) -> list[QueueKey]:
        """The queues for which a pull waits."""
        return list(self._by_queue)

    def arrived(self, queues: Iterable[QueueKey]) -> None:
        """Tries the pulls of queues that have grown."""
        for queue in queues:
            pulls = self._by_queue.get(queue)
            if not pulls:
                continue
            self._by_queue[queue] = []
            for pull in pulls:
                self._try(pull, last=False)
            if not self._by_queue[queue]:
                del self._by_queue[queue]

    def expire(self, now: float) -> None:
        """Answers those whose deadline has passed."""
        while self._by_deadline and (self._by_deadline[0][0] <= now or self._by_deadline[0][2].is_done):
            _, _, pull = heapq.heappop(self._by_deadline)
            if pull.is_done:
                continue
            pulls = self._by_queue.get(pull.queue, [])
            if pull in pulls:
                pulls.remove(pull)
                if not pulls:
                    del self._by_queue[pull.queue]
            self._try(pull, last=True)

    def next_deadline(self) -> float | None:
        """When `expire` is due, in the loop's time."""
        return self._by_deadline[0][0] if self._by_deadline else None

    def _try(self, pull: HeldPull, last: bool) -> None:
        if pull.try_again(last) or last:
            pull.is_done = True
            self._size -= 1
        else:
            self._by_queue.setdefault(pull.queue, []).append(pull)
