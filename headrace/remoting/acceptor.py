"""Acceptor: accepts the connections of one listening socket, several in each turn of the event loop.

uvloop accepts one connection per turn. While a client floods the loop, a turn lasts milliseconds, so a hundred clients that connect at that
time would wait for a hundred turns. Here a turn accepts up to ACCEPTS_PER_TURN connections. More would delay the connected clients.
Other connections wait in the kernel. Connections of an address that has opened too many in the current minute are closed at once.
"""

import asyncio
import errno
import logging
import socket
from typing import Final

from headrace.model.connection_limits import MAX_NEW_CONNECTIONS
from headrace.remoting.client_usage import name_of_address
from headrace.remoting.connection import make_channel
from headrace.remoting.endpoint import Endpoint

BACKLOG: Final = 4096  # limit: connections that wait in the kernel; beyond it clients try again after 1 s. The system may allow fewer
ACCEPTS_PER_TURN: Final = 64  # limit: connections, some 4 ms
RETRY_S: Final = 1.0
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts until `close`. Owns `listening`, a bound socket."""

    def __init__(self, endpoint: Endpoint, listening: socket.socket) -> None:
        self._endpoint = endpoint
        self._loop = endpoint.loop
        self._listening = listening
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
        """Closes the socket, and waits until the connections that it accepted are open. May be called repeatedly."""
        if self._retry is not None:
            self._retry.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)
            self._listening.close()
        if self._opening:
            await asyncio.wait(self._opening)

    def _accept(self) -> None:
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
            if not self._is_within_limit(address[0], address[1]):
                accepted.close()
                continue
            accepted.setblocking(False)
            task: asyncio.Task[object] = self._loop.create_task(self._open(accepted))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _is_within_limit(self, host: str, port: int) -> bool:
        # Checked before anything is created for the connection, so that refusing one is cheap.
        endpoint, name = self._endpoint, name_of_address(host)
        if endpoint.new_connections.allows(name):
            return True
        reason = f"connection closed: {name} has opened {endpoint.limits.new_connections_per_minute} connections in this minute"
        endpoint.faults.limit_reached(MAX_NEW_CONNECTIONS, f"{host}:{port}", reason)
        return False

    async def _open(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: make_channel(self._endpoint), accepted)
        except OSError as error:
            accepted.close()
            self._endpoint.faults.closed("", f"connection not opened: {error}", logging.WARNING)

    def _pause(self, error: OSError) -> None:
        """Tries again later: the connection stays in the kernel's queue, so the socket would be readable all the time."""
        reason = (
            f"no connection accepted for {RETRY_S:g} s: {error.strerror}; raise the limit of open files (ulimit -n)"
        )
        self._endpoint.faults.closed("", reason, logging.ERROR)
        self._loop.remove_reader(self._listening)
        self._retry = self._loop.call_later(RETRY_S, self._loop.add_reader, self._listening, self._accept)
