"""BufferBudget: limits the bytes that all connections of a role hold together: incomplete frames, waiting requests, unsent answers, TLS buffers.

    below 3/4    no restrictions
    below 7/8    large frames wait: they are not read any further
    above        requests wait, too, except those of the broker's hot path with small answers
    over limit   the largest holder is closed at once, an idle one if possible

If a connection has waited for ROOM_GRACE_S, the largest holders that were idle for as long are closed until there is room. Connections that
transfer data are not closed: slow consumers and producers only make others wait.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Collection
from typing import Final, Protocol

from headrace.model.connection_limits import MAX_CONNECTION_BUFFER_BYTES
from headrace.remoting.fault_log import FaultLog

SMALL_FRAME: Final = 64 << 10
ROOM_GRACE_S: Final = 5.0
LEAST_RATE: Final = 64 << 10  # limit: bytes per second that a connection must transfer in order not to be idle


class Holder(Protocol):
    """The interface of a connection that the budget uses."""

    held_bytes: int
    """The bytes that it holds."""
    remote: str
    """The peer's `host:port`."""
    moved_at: float
    """When it last transferred at least LEAST_RATE, in monotonic seconds."""

    @property
    def is_closed(self) -> bool:
        """Whether it is closed for reading."""

    def room_found(self) -> None:
        """There is room for what it waits for."""

    def abort(self, reason: str, level: int = ...) -> None:
        """Closes it at once; the bytes that it holds are released before this returns."""


class BufferBudget:
    """The sum of held bytes, and the connections that wait. `limit` in bytes, 0: none; `holders`: all connections. Used in one event loop."""

    def __init__(self, limit: int = 0, holders: Collection[Holder] = (), faults: FaultLog | None = None) -> None:
        """`faults` counts the connections closed because of their memory."""
        self.limit = limit or 1 << 62
        self._faults = faults
        self.used = 0
        self._holders = holders
        self._large_limit = self.limit // 4 * 3
        self.tight_limit = self.limit // 8 * 7
        """Above it requests must wait."""
        self._large: deque[tuple[Holder, int, float]] = deque()
        self._small: deque[tuple[Holder, int, float]] = deque()
        self._is_due = False

    @property
    def is_tight(self) -> bool:
        """Whether requests must wait."""
        return self.used > self.tight_limit

    def fits(self, size: int, *, has_waited: bool = False) -> bool:
        """Whether another `size` bytes of a frame may be read now. `has_waited`: the connection waited and is next."""
        if size <= SMALL_FRAME:
            return self.used + size <= self.limit
        return (has_waited or not self._large) and self.used + size <= self._large_limit

    def hold(self, change: int) -> None:
        """Adds `change` to the bytes held."""
        self.used += change
        if (self._large or self._small) if change < 0 else self.used > self.limit:
            self._look_soon()

    def wait(self, holder: Holder, size: int) -> None:
        """Calls `holder.room_found` when there is room for `size` bytes, 0 for the next request. In order of arrival, small ones before large ones."""
        (self._large if size > SMALL_FRAME else self._small).append((holder, size, time.monotonic()))
        self._look_soon()

    def relieve(self) -> None:
        """Closes idle holders if a connection has waited too long. Called once a second."""
        now = time.monotonic()
        overdue = [
            size for waiting in (self._small, self._large) for _, size, since in waiting if now - since >= ROOM_GRACE_S
        ]
        if not overdue:
            return
        waiting = {id(holder) for holder, _, _ in (*self._small, *self._large)}
        idle = sorted(
            (
                each
                for each in self._holders
                if each.held_bytes and now - each.moved_at >= ROOM_GRACE_S and id(each) not in waiting
            ),
            key=_size,
        )
        while idle and self.used + sum(overdue) > self._large_limit:
            self._close(idle.pop(), "was idle")

    def _close(self, holder: Holder, why: str) -> None:
        held = holder.held_bytes
        if self._faults is not None:
            remark = f"a connection that held {held} of {self.used} bytes was closed"
            self._faults.limit_reached(MAX_CONNECTION_BUFFER_BYTES, holder.remote, remark)
        holder.abort(
            f"memory for connections is used up ({self.limit} bytes); this connection held {held} of {self.used} bytes and {why}",
            logging.WARNING,
        )

    def _look_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._is_due = False
        now = time.monotonic()
        if self.used > self.limit:
            # Closed from the end of the list.
            holders = sorted(self._holders, key=lambda each: (now - each.moved_at >= 1, each.held_bytes))
            while holders and self.used > self.limit:
                self._close(holders.pop(), "held the most")
        self._admit(self._small, self.tight_limit)
        self._admit(self._large, self._large_limit)

    def _admit(self, waiting: deque[tuple[Holder, int, float]], limit: int) -> None:
        while waiting:
            holder, size, _ = waiting[0]
            if not holder.is_closed and self.used + size > limit:
                return
            waiting.popleft()
            if not holder.is_closed:
                holder.room_found()


def _size(holder: Holder) -> int:
    return holder.held_bytes
