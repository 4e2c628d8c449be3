"""RemotingServer: accepts connections and passes their requests to handlers.

A server may listen on several ports, each with its own handlers; hooks and limits apply to the server. An idle connection needs no task and no
timer. All listeners share one memory budget for unhandled and unsent bytes, and one division of the loop's time among clients.
"""

import asyncio
import logging
import os
import socket
from typing import Final

from headrace.model.buffer_limit import DEFAULT_LIMIT, check_limit
from headrace.model.connection_limits import OPTIONS, ConnectionLimits
from headrace.remoting.acceptor import Acceptor
from headrace.remoting.address_rate import AddressRate
from headrace.remoting.buffer_budget import BufferBudget
from headrace.remoting.certificate_expiry import ExpiryReport
from headrace.remoting.channel import Channel
from headrace.remoting.client_usage import ClientUsages
from headrace.remoting.closing import close_all
from headrace.remoting.connection import Connection
from headrace.remoting.deadlines import Deadlines
from headrace.remoting.endpoint import Admit, Endpoint, MakeHotPath, OnClose, OnOpen
from headrace.remoting.fault_log import FaultLog
from headrace.remoting.handlers import HandlerTable
from headrace.remoting.idle import IdleSweep
from headrace.remoting.peer_watch import STALL_GRACE_S, PeerWatch
from headrace.remoting.server_tls import ServerTls
from headrace.remoting.socket_reader import make_reader
from headrace.remoting.turns import Turns

logger = logging.getLogger(__name__)

IDLE_TIMEOUT_S: Final = 120.0


class RemotingServer:
    """Listens; `connections` are the open incoming connections.

    `on_open(connection)` and `on_close(connection, reason)` are called for each; `admit(connection)` returns its admission. `faults` counts and logs
    faults of clients. `buffer_limit`: bytes that all connections may hold together (`buffer_budget`); ValueError below LEAST_LIMIT.
    `stall_grace_s`: a peer that reads nothing for this long although answers wait is closed.
    `tls`: whether and how its ports serve TLS; without it they serve plain text only.
    Must be created in a running loop.
    """

    def __init__(
        self,
        handlers: HandlerTable,
        *,
        on_open: OnOpen | None = None,
        on_close: OnClose | None = None,
        admit: Admit | None = None,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008  immutable
        faults: FaultLog | None = None,
        buffer_limit: int = DEFAULT_LIMIT,
        stall_grace_s: float = STALL_GRACE_S,
        tls: ServerTls | None = None,
    ) -> None:
        check_limit(buffer_limit, "buffer_limit")
        self._handlers = handlers
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._loop)
        self._hooks = (on_open, on_close, admit)
        self._limits = limits
        self._usages = ClientUsages()
        self._turns = Turns(self._loop)
        self._reader = make_reader(self._loop)
        self._new_connections = AddressRate(limits.new_connections_per_minute)
        self._new_handshakes = AddressRate(limits.handshakes_per_minute)
        self._tls = tls
        self.connections: set[Connection] = set()
        self._channels: set[Channel] = set()
        self._endpoints: list[Endpoint] = []
        self._acceptors: list[Acceptor] = []
        self.faults = FaultLog(limits=OPTIONS) if faults is None else faults
        self._budget = BufferBudget(buffer_limit, self._channels, self.faults)
        self._sweep = IdleSweep(self._loop, self._channels, idle_timeout_s)
        self._expiry = None if tls is None else ExpiryReport(self._loop, tls.settings)
        self._watch = PeerWatch(self._loop, self._channels, self._budget, self.faults, stall_grace_s)

    async def listen(
        self,
        host: str | None,
        port: int,
        handlers: HandlerTable | None = None,
        make_hot_path: MakeHotPath | None = None,
    ) -> int:
        """Starts accepting connections on the address; `handlers` replace the server's for this port.

        `make_hot_path(connection)` creates a `HotPath` for each connection.
        Returns the port, which is useful if `port` is 0. An empty host means all addresses. Raises OSError, such as EADDRINUSE.
        """
        on_open, on_close, admit = self._hooks
        endpoint = Endpoint(
            self._loop,
            handlers or self._handlers,
            self._deadlines,
            self._channels,
            self.connections,
            make_hot_path,
            on_open,
            on_close,
            admit,
            budget=self._budget,
            faults=self.faults,
            limits=self._limits,
            usages=self._usages,
            turns=self._turns,
            reader=self._reader,
            new_connections=self._new_connections,
            new_handshakes=self._new_handshakes,
            tls=self._tls,
        )
        acceptors = [Acceptor(endpoint, each, self._turns) for each in await self._bind(host or None, port)]
        self._endpoints.append(endpoint)
        self._acceptors += acceptors
        bound = acceptors[0].port
        logger.info("listening address=%s port=%d", host or "*", bound)
        return bound

    async def _bind(self, host: str | None, port: int) -> list[socket.socket]:
        """A socket for each address of the host."""
        # asyncio's way to resolve and bind, without its way to accept.
        bound = await self._loop.create_server(asyncio.Protocol, host, port, reuse_address=True, start_serving=False)
        try:
            return [socket.socket(fileno=os.dup(each.fileno())) for each in bound.sockets]
        finally:
            bound.close()

    @property
    def held_bytes(self) -> int:
        """The bytes that all connections hold now."""
        return self._budget.used

    @property
    def waits(self) -> int:
        """How often a connection waited for its client's turn."""
        return self._turns.waits

    @property
    def handler_errors(self) -> int:
        """How many requests failed because their handler raised; mistakes of peers do not count."""
        return sum(endpoint.handler_errors for endpoint in self._endpoints)

    @property
    def refused_requests(self) -> int:
        """How many requests were refused because the peer may not send them."""
        return sum(endpoint.refused_requests for endpoint in self._endpoints)

    @property
    def bad_frames(self) -> int:
        """How many connections were closed because their data was not a valid frame."""
        return sum(endpoint.bad_frames for endpoint in self._endpoints)

    @property
    def tls_failures(self) -> int:
        """How many connections were closed because their TLS handshake failed."""
        return sum(endpoint.tls_failures for endpoint in self._endpoints)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Stops accepting connections and requests; waits up to `grace_s` seconds for running handlers, then closes everything."""
        for acceptor in self._acceptors:
            await acceptor.close()
        self._sweep.close()
        if self._expiry is not None:
            self._expiry.close()
        end = self._loop.time() + grace_s
        for channel in self._channels:
            channel.drain()
        tasks = [task for connection in self.connections for task in connection.tasks]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        await close_all(self._channels, "stopping", max(end - self._loop.time(), 0.1))
        if self._reader is not None:
            self._reader.close()
        self._watch.close()
        self._deadlines.close()
