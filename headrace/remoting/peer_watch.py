"""PeerWatch: checks all connections of a server once a second, some at a time.

It closes connections whose peers read nothing although answers wait, and triggers the periodic work of the memory budget and the fault log.
A peer that reads slowly is not closed as long as there is memory.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from headrace.remoting.buffer_budget import BufferBudget
from headrace.remoting.channel import Channel
from headrace.remoting.fault_log import FaultLog

STALL_GRACE_S: Final = 30.0
INTERVAL_S: Final = 1.0
AT_ONCE: Final = 200  # limit: connections checked at once, half a millisecond; ten thousand would block the loop


class PeerWatch:
    """Runs from its creation until `close`. `stall_grace_s`: how long a peer may read nothing."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        channels: Collection[Channel],
        budget: BufferBudget,
        faults: FaultLog,
        stall_grace_s: float,
    ) -> None:
        self._loop = loop
        self._channels = channels
        self._budget = budget
        self._faults = faults
        self._stall_grace_s = stall_grace_s
        self._interval_s = min(INTERVAL_S, stall_grace_s / 4)
        self._began = loop.time()
        self._seconds = 0.0
        self._left: list[Channel] = []
        self._pause_s = self._interval_s
        self._timer = loop.call_later(self._interval_s, self._begin)

    def _begin(self) -> None:
        """Starts a round over all connections."""
        now = self._loop.time()
        self._seconds, self._began = now - self._began, now
        self._budget.relieve()
        self._faults.sum_up()
        self._left = list(self._channels)
        self._pause_s = self._interval_s / (len(self._left) // AT_ONCE + 1)
        self._look()

    def _look(self) -> None:
        now = self._loop.time()
        for channel in self._left[-AT_ONCE:]:
            channel.look(now, self._seconds, self._stall_grace_s)
        del self._left[-AT_ONCE:]
        self._timer = self._loop.call_later(self._pause_s, self._look if self._left else self._begin)

    def close(self) -> None:
        """Stops checking."""
        self._timer.cancel()
        self._left.clear()
