"""Acceptor: accepts the connections of one listening socket, several in each turn of the event loop.

    kernel ──► accept, up to ACCEPTS_PER_TURN ──► within the limits? ──► has its address time left? ── yes ──► opened
                                                     │ no                  │ no                                  ▲
                                                     ▼                     ▼                                     │
                                                   closed           waits for its turn (`turns`) ────────────────┘

uvloop accepts one connection per turn. While a client floods the loop, a turn lasts milliseconds, so a hundred clients that connect at that
time would wait for a hundred turns. Here a turn accepts up to ACCEPTS_PER_TURN connections; others wait in the kernel. Accepting, opening and
closing a connection is part of its client's time. A connection that is not opened at once, because its client has no time left or has reached a
limit, was accepted in nobody's time: a client that connects without end takes at most ACCEPT_NS of that in each turn. Less would be worse:
connections that are not accepted fill the kernel's queue, and then nobody can connect.
"""

import asyncio
import errno
import logging
import socket
from time import monotonic_ns
from typing import Final

from headrace.model.connection_limits import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS, MAX_NEW_CONNECTIONS
from headrace.remoting.client_usage import ClientUsage
from headrace.remoting.connection import make_channel
from headrace.remoting.endpoint import Endpoint
from headrace.remoting.turns import Turns

BACKLOG: Final = 4096  # limit: connections that wait in the kernel; beyond it clients try again after 1 s. The system may allow fewer
ACCEPTS_PER_TURN: Final = 64  # limit: connections
ACCEPT_NS: Final = 250_000  # limit: time for those of them that are not opened at once
OPENING_NS: Final = 50_000
"""About what opening and closing a connection takes: 35 to 85 microseconds. If it were more, it would look as if the loop had no time left for others."""
RETRY_S: Final = 1.0
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts until `close`. Owns `listening`, a bound socket."""

    def __init__(self, endpoint: Endpoint, listening: socket.socket, turns: Turns) -> None:
        self._endpoint = endpoint
        self._turns = turns
        self._loop = endpoint.loop
        self._listening = listening
        self._waiting: set[_Waiting] = set()
        self._opening: set[asyncio.Task[object]] = set()
        self._retry: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._loop.add_reader(listening, self._accept)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listening.getsockname()[1])

    async def close(self) -> None:
        """Closes the socket and the connections that wait for a turn; waits for those that are being opened. May be called repeatedly."""
        if self._retry is not None:
            self._retry.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)
            self._listening.close()
        for waiting in self._waiting:
            self._drop(waiting.accepted, waiting.usage)
        self._waiting.clear()
        if self._opening:
            await asyncio.wait(self._opening)

    def _accept(self) -> None:
        left_ns, now = ACCEPT_NS, monotonic_ns()
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._pause(error)
                    return
                continue  # reset by the peer before it was accepted
            usage = self._endpoint.usages.join_address(address[0])
            reached = self._limit_reached(usage)
            if reached is not None:
                limit, reason = reached
                remote = f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
                self._endpoint.faults.limit_reached(limit, remote, f"connection closed: {reason}")
            is_opened = False
            if reached is not None or _was_reset(accepted):
                self._drop(accepted, usage)
            else:
                accepted.setblocking(False)
                is_opened = self._open_in_turn(accepted, usage)
            began, now = now, monotonic_ns()
            if not is_opened:
                left_ns -= now - began
                if left_ns < 0:
                    return

    def _limit_reached(self, usage: ClientUsage) -> tuple[str, str] | None:
        """The limit that one more connection of this client exceeds, and why. Nothing was created for it yet, so closing it is cheap."""
        endpoint, limits = self._endpoint, self._endpoint.limits
        if not endpoint.new_connections.allows(usage.name):
            return (
                MAX_NEW_CONNECTIONS,
                f"{usage.name} has opened {limits.new_connections_per_minute} connections in this minute",
            )
        if limits.connections_per_address and usage.connections > limits.connections_per_address:
            return (
                MAX_CONNECTIONS_PER_ADDRESS,
                f"{limits.connections_per_address} connections of {usage.name} are open",
            )
        if limits.connections and endpoint.usages.connections > limits.connections:
            return MAX_CONNECTIONS, f"{limits.connections} connections are open"
        return None

    def _open_in_turn(self, accepted: socket.socket, usage: ClientUsage) -> bool:
        """Returns whether its client has time left; otherwise it waits."""
        turns = self._turns
        if turns.begin(usage):
            turns.charge(usage, OPENING_NS)
            self._open(accepted, usage)
            turns.end(usage)
            return True
        waiting = _Waiting(self, accepted, usage)
        self._waiting.add(waiting)
        turns.wait(usage, waiting)
        return False

    def open_waiting(self, waiting: "_Waiting") -> None:
        """It is the turn of a client whose connection waited."""
        if waiting not in self._waiting:
            return
        self._waiting.discard(waiting)
        if _was_reset(waiting.accepted):
            self._drop(waiting.accepted, waiting.usage)
        else:
            self._turns.charge(waiting.usage, OPENING_NS)
            self._open(waiting.accepted, waiting.usage)

    def _open(self, accepted: socket.socket, usage: ClientUsage) -> None:
        task: asyncio.Task[object] = self._loop.create_task(self._connect(accepted, usage))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _connect(self, accepted: socket.socket, usage: ClientUsage) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: make_channel(self._endpoint, usage), accepted)
        except Exception as error:
            self._drop(accepted, usage)
            if not isinstance(error, OSError):
                raise
            self._endpoint.faults.closed("", f"connection not opened: {error}", logging.WARNING)

    def _drop(self, accepted: socket.socket, usage: ClientUsage) -> None:
        """Closes a connection that is not open."""
        self._endpoint.usages.leave_address(usage)
        accepted.close()

    def _pause(self, error: OSError) -> None:
        """Tries again later: the connection stays in the kernel's queue, so the socket would be readable all the time."""
        reason = f"no connection accepted for {RETRY_S:g} s: {error.strerror}; raise the open file limit (ulimit -n)"
        self._endpoint.faults.closed("", reason, logging.ERROR)
        self._loop.remove_reader(self._listening)
        self._retry = self._loop.call_later(RETRY_S, self._loop.add_reader, self._listening, self._accept)


def _was_reset(accepted: socket.socket) -> bool:
    """Whether the peer has reset the connection: opening it would be in vain."""
    try:
        accepted.getpeername()
    except OSError:
        return True
    return False


class _Waiting:
    """An accepted connection that waits for its client's turn. Its address has joined the usages."""

    __slots__ = ("_acceptor", "accepted", "usage")

    def __init__(self, acceptor: Acceptor, accepted: socket.socket, usage: ClientUsage) -> None:
        self._acceptor = acceptor
        self.accepted = accepted
        self.usage = usage

    def take_turn(self) -> None:
        """See `turns.Waiter`."""
        self._acceptor.open_waiting(self)
