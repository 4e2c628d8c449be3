"""QueueVisits: when a consumer group last pulled from, committed or locked a queue.

One store per pull, not per message; for pulls on the hot path 0.1 s later. The owner of a queue does at least one of these every
twenty seconds: it pulls; while busy it commits; an orderly consumer renews its lock.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping


class QueueVisits:
    """By group and topic. Times are of the monotonic clock, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._visits: dict[tuple[str, str], dict[int, float]] = {}

    def visited(self, group: str, topic: str, queue_ids: Iterable[int], hold_s: float = 0.0) -> None:
        """Records a visit of the group to these queues, which lasts for this time."""
        now = self._clock() + hold_s
        visits = self._visits.get((group, topic))
        if visits is None:
            visits = self._visits[group, topic] = {}
        for queue_id in queue_ids:
            visits[queue_id] = now

    def of(self, group: str, topic: str) -> Mapping[int, float]:
        """The time of the group's last visit to each queue of the topic; in the future if a pull is held."""
        return self._visits.get((group, topic), {})

    def keep_only(self, groups: Collection[str]) -> None:
        """Removes all other groups."""
        for key in [key for key in self._visits if key[0] not in groups]:
            del self._visits[key]
