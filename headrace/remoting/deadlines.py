"""Deadlines: time-outs of many futures with a single timer of the loop.

A timer per request would cost more than the request, and nearly all requests are answered long before their deadline. So futures are kept in
buckets of 10 ms: joining and leaving a bucket is a set operation, and the loop has one timer, for the earliest bucket. A future expires up to one
bucket late, never early. If the loop was busy and runs the timer much later, it first reads from the sockets: an answer that has already arrived
is in time.
"""

import asyncio
import heapq
import math
from collections.abc import Callable
from typing import Any, Final

BUCKETS_PER_SECOND: Final = 100  # limit: no time-out over a network needs to be more precise than 10 ms

LATE_S: Final = 0.1  # limit: a timer that runs later than this shows that the loop was busy
PARTS: Final = 4  # limit: parts of a time-out; more would wake the loop more often
READING_S: Final = 0.1  # limit: how long it then reads before futures expire

Expire = Callable[[], BaseException]


async def wait_in_time(task: asyncio.Future[Any], timeout_s: float) -> float | None:
    """Waits until the task is done; returns how many of the seconds are left, None if it was not done in time.

    Time in which the loop was busy with something else does not count. To exclude it, the wait is divided into parts, and each part counts for at
    most its nominal length. Comparing the clock with the deadline alone is not enough: a busy loop, such as during the first steps of ten
    thousand sends, may reach a deadline in time by chance.

    If the task is done, at least one part is left: what follows must not fail because the loop was busy before.
    """
    loop = asyncio.get_running_loop()
    share_s = timeout_s / PARTS
    for number in range(PARTS):
        start = loop.time()
        done, _ = await asyncio.wait([task], timeout=max(share_s, 0))
        if done:
            return max(timeout_s - number * share_s - (loop.time() - start), share_s)
    return None


class Deadlines:
    """Fails futures that are not done by their deadline. One per server or client, in its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buckets: dict[int, dict[asyncio.Future[Any], Expire]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_bucket = 0

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def add(self, future: asyncio.Future[Any], timeout_s: float, expire: Expire) -> int:
        """Watches the future: if it is not done in `timeout_s` seconds it fails with what `expire` returns.

        Returns the bucket, for `remove`.
        """
        bucket = math.ceil((self._loop.time() + timeout_s) * BUCKETS_PER_SECOND)
        self._bucket(bucket)[future] = expire
        return bucket

    def bucket(self, timeout_s: float) -> dict[asyncio.Future[Any], Expire]:
        """The bucket of all deadlines in `timeout_s` seconds from now, for callers that add and remove many futures directly."""
        return self._bucket(math.ceil((self._loop.time() + timeout_s) * BUCKETS_PER_SECOND))

    def _bucket(self, bucket: int) -> dict[asyncio.Future[Any], Expire]:
        futures = self._buckets.get(bucket)
        if futures is None:
            futures = self._buckets[bucket] = {}
            heapq.heappush(self._order, bucket)
            if self._timer is None or bucket < self._timer_bucket:
                self._arm()
        return futures

    def remove(self, future: asyncio.Future[Any], bucket: int) -> None:
        """Removes a future that is done. Removing it twice is not an error."""
        futures = self._buckets.get(bucket)
        if futures is not None:
            futures.pop(future, None)

    def close(self) -> None:
        """Cancels the timer. Futures that are not done stay as they are."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buckets.clear()
        self._order.clear()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_bucket = self._order[0]
        self._timer = self._loop.call_at(self._timer_bucket / BUCKETS_PER_SECOND, self._due)

    def _due(self) -> None:
        if self._loop.time() > self._timer_bucket / BUCKETS_PER_SECOND + LATE_S:
            self._timer = self._loop.call_later(READING_S, self._pass)
        else:
            self._pass()

    def _pass(self) -> None:
        self._timer = None
        # Loops may run a timer up to a clock tick early; a bucket must not expire early.
        now = self._loop.time() * BUCKETS_PER_SECOND
        while self._order and (self._order[0] <= now or not self._buckets[self._order[0]]):
            for future, expire in self._buckets.pop(heapq.heappop(self._order)).items():
                if not future.done():
                    future.set_exception(expire())
        if self._order:
            self._arm()
