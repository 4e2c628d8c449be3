# cython: wraparound=False, cdivision=True

"""Turns: divides the event loop's time among clients, so that a client that floods the server delays others only by milliseconds.

    data ──► does its client have time left? ── yes ──► its frames are handled, until the time is over ──┐
                     │ no                                                                                │
                     └──► the channel keeps the data, reads no more, and waits ◄─────────────────────────┘
                                            │
     every turn of the loop: the clients that wait are handled one after the other, SLICE_NS each, until their common time is over

If several clients are active, each has SLICE_NS in each window of 2 ms; the rest of its frames waits until the others' data of this turn is handled.
Those that wait get together an eighth of the time that the loop has spent on others since, TURN_NS at most; if nothing is left to do for others, all
of it.
A single active client may continue, but one turn of the loop handles frames for at most LOOP_NS: with thousands of readable connections an event
loop would otherwise not accept connections or run callbacks for a long time.
All connections of a client share its time (`client_usage`), so more connections do not give it more. While frames of a client wait, its other
connections wait behind them: those that happen to be read first get no more than the rest.

Called for every read, so this is a hot module (types in the `.pxd`); the SDK's wheel contains only the Python form.
"""

import asyncio
from collections import deque
from time import monotonic_ns
from typing import Final, Protocol

from headrace.remoting.client_usage import WINDOW_BITS, ClientUsage

SLICE_NS: Final = 500_000  # limit: maximum delay of the others, per flooding client
LOOP_NS: Final = 10_000_000  # limit: maximum delay of a new client while a single client floods
_MARK_NS: Final = 2_000_000  # limit: time after which the end of the loop's turn is detected, which costs a callback
TURN_NS: Final = 500_000  # limit: for all clients that wait, in one turn of the loop
IDLE_NS: Final = (
    200_000  # limit: less time for others since the last turn means that the loop is free for those that wait
)
_SHARED_NS: Final = 100_000_000  # limit: how long the loop counts as shared after two clients were active

_WINDOW_BITS = WINDOW_BITS
_SLICE = SLICE_NS
_LOOP = LOOP_NS
_TURN = TURN_NS
_IDLE = IDLE_NS


class Waiter(Protocol):
    """A channel whose frames wait, or other work for a client."""

    def take_turn(self) -> None:
        """Continues until `Turns.ends_ns`; it may wait again."""


class Turns:
    """The waiting clients and the end of the current turn. For one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last: ClientUsage | None = None
        self._shared_until_ns = 0
        self._clients: deque[ClientUsage] = deque()
        self._is_due = False
        self._spent_ns = 0  # since the last known turn of the loop
        self._began_ns = 0
        self._later_ns = 0  # charged in this turn
        self._ran_ns = 0  # when the last turn of those that wait ended
        self._ran_later_ns = 0  # charged in it
        self._left_ns = 0  # their time; may be negative
        self.ends_ns = 0
        """When the current turn ends (monotonic clock)."""
        self.waits = 0
        """How often a channel had to wait."""

    def begin(self, usage: ClientUsage) -> bool:
        """Data of a client has arrived: starts its turn, or returns False if it must wait. Call `end` after a turn."""
        now = monotonic_ns()
        if usage is not self._last:
            self._change_client(usage, now)
        window = now >> _WINDOW_BITS
        if usage.window != window:
            # Work that cannot be divided may take longer than the share; what it took is missing in the next window.
            usage.spent_ns = min(max(usage.spent_ns - _SLICE, 0), _SLICE) if usage.window == window - 1 else 0
            usage.window = window
        self._began_ns = now
        left_ns = _LOOP - self._spent_ns
        if usage.waiting:
            left_ns = 0
        elif now < self._shared_until_ns:
            left_ns = min(_SLICE - usage.spent_ns, left_ns)
        self.ends_ns = now + left_ns
        return left_ns > 0

    def _change_client(self, usage: ClientUsage, now: int) -> None:
        if self._last is not None:
            self._shared_until_ns = now + _SHARED_NS
        self._last = usage

    def end(self, usage: ClientUsage) -> None:
        """The turn is over."""
        now: int = monotonic_ns()
        spent_ns = now - self._began_ns
        if self._began_ns < self._shared_until_ns:
            usage.spent_ns += spent_ns
        self._spent_ns += spent_ns
        if self._spent_ns >= _MARK_NS:
            self._run_soon()

    def charge(self, usage: ClientUsage, later_ns: int) -> None:
        """Work of the current turn that the loop will do later takes about so long; call between `begin` and `end`, or in `take_turn`."""
        if self._began_ns < self._shared_until_ns:
            usage.spent_ns += later_ns
        self._spent_ns += later_ns
        self._later_ns += later_ns
        self.ends_ns -= later_ns

    def wait(self, usage: ClientUsage, channel: Waiter) -> None:
        """Calls `channel.take_turn` when it is its turn."""
        self.waits += 1
        usage.waiting.append(channel)
        if not usage.is_queued:
            usage.is_queued = True
            self._clients.append(usage)
        self._run_soon()

    def _run_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """In each turn of the loop: handles waiting frames, a slice per client, until the time for all of them is over."""
        self._is_due = False
        began = now = monotonic_ns()
        others_ns = began - self._ran_ns - self._ran_later_ns
        slice_ns = _SLICE
        if now >= self._shared_until_ns:
            self._left_ns = slice_ns = _LOOP - self._spent_ns
        elif others_ns < _IDLE:
            self._left_ns = _TURN
        else:
            self._left_ns = min(self._left_ns + (others_ns >> 3), _TURN)
        self._spent_ns = self._later_ns = 0
        spent_ns = 0
        for _ in range(len(self._clients)):
            if spent_ns >= self._left_ns:
                break
            usage = self._clients.popleft()
            if usage is not self._last:
                self._change_client(usage, now)
            self.ends_ns = now + min(slice_ns, self._left_ns - spent_ns)
            for _ in range(len(usage.waiting)):
                usage.waiting.popleft().take_turn()
                now = monotonic_ns()
                if now >= self.ends_ns:
                    break
            usage.is_queued = bool(usage.waiting)
            if usage.is_queued:
                self._clients.append(usage)
            spent_ns = now - began + self._later_ns
        # After a long piece of work of one of them the others do not wait for all of the time that it has cost.
        self._left_ns = max(self._left_ns - spent_ns, -(_LOOP >> 1))
        self._ran_ns = now
        self._ran_later_ns = self._later_ns
        if self._clients:
            self._run_soon()
