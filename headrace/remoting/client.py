"""The client side: one connection per address, opened when first needed and shared by all requests.

After a connection breaks, the next request opens a new one. Requests in progress fail; the caller decides whether to retry them. Outgoing
connections always read, so answers arrive even while requests wait to be sent. If a request times out and nothing at all was received
meanwhile, the connection is closed: its peer is gone.
"""

import asyncio
import logging
from collections.abc import Callable
from ssl import SSLContext, SSLError
from typing import Final, TypeAlias

from headrace.errors import ConnectError, RequestTimeout, StateError
from headrace.model.host import parse_host
from headrace.protocol.remoting_command import RemotingCommand
from headrace.remoting.closing import close_all
from headrace.remoting.connection import Connection, make_channel
from headrace.remoting.deadlines import Deadlines, wait_in_time
from headrace.remoting.endpoint import Endpoint, MakeHotPath, OnClose
from headrace.remoting.handlers import HandlerTable
from headrace.remoting.idle import IdleSweep

CONNECT_TIMEOUT_S: Final = 3.0
IDLE_TIMEOUT_S: Final = 120.0
CLOSE_GRACE_S: Final = 1.0  # limit: how long the last written bytes may take to be sent

BeforeRequest: TypeAlias = Callable[[str, RemotingCommand], None]


class RemotingClient:
    """Sends requests to addresses (`host:port`).

    `handlers` answer requests of peers; `before_request(address, command)` is called before each request is encoded, and may sign it;
    `on_close(connection, reason)` is called for lost connections; with `ssl` all connections use TLS; `make_hot_path(connection)` creates a `HotPath`
    for each. Use it in one loop only.
    """

    def __init__(
        self,
        handlers: HandlerTable | None = None,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        before_request: BeforeRequest | None = None,
        on_close: OnClose | None = None,
        ssl: SSLContext | None = None,
        make_hot_path: MakeHotPath | None = None,
    ) -> None:
        self._handlers = handlers or HandlerTable()
        self._connect_timeout_s = connect_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._before_request = before_request
        self._on_close = on_close
        self._ssl = ssl
        self._make_hot_path = make_hot_path
        self._endpoint: Endpoint | None = None
        self._sweep: IdleSweep | None = None
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._is_closed = False

    async def request(self, address: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Sends a request and waits for the answer, whatever its code. The time to connect is included in the timeout.

        Raises ConnectError, RequestTimeout, SendRequestError, TooManyRequests, LocalProtocolError; StateError once closed.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        left_ms = timeout_ms
        connection = self.open_connection(address)
        if connection is None:
            connection, left_s = await self._connection(address, timeout_ms / 1000)
            left_ms = max(1, int(left_s * 1000))
        if self._before_request is not None:
            self._before_request(address, command)
        try:
            return await connection.request(command, left_ms)
        except RequestTimeout:
            if connection.silent_since(start):
                connection.close(f"no data received within {timeout_ms} ms", logging.WARNING)
            raise

    async def oneway(self, address: str, command: RemotingCommand) -> None:
        """Sends a one-way request; returns when it is handed to the connection. Raises ConnectError, LocalProtocolError."""
        connection = await self.connect(address)
        if self._before_request is not None:
            self._before_request(address, command)
        connection.send_oneway(command)

    async def connect(self, address: str) -> Connection:
        """The connection to the address, opened if there is none. Raises ConnectError, RequestTimeout; StateError once closed."""
        connection, _ = await self._connection(address, self._connect_timeout_s)
        return connection

    def open_connection(self, address: str) -> Connection | None:
        """The connection to the address if it is open now."""
        connection = self._connections.get(address)
        return None if connection is None or connection.is_closed else connection

    def is_connected(self, address: str) -> bool:
        """Whether a connection to the address is open now."""
        return self.open_connection(address) is not None

    async def close(self) -> None:
        """Closes all connections; requests without an answer fail with SendRequestError. May be called twice."""
        self._is_closed = True
        connecting = list(self._connecting.values())
        for task in connecting:
            task.cancel()
        if connecting:
            await asyncio.wait(connecting)
        if self._endpoint is None:
            return
        if self._sweep is not None:
            self._sweep.close()
        await close_all(self._endpoint.channels, "closed by this client", CLOSE_GRACE_S, logging.DEBUG)
        self._endpoint.deadlines.close()

    async def _connection(self, address: str, timeout_s: float) -> tuple[Connection, float]:
        """The connection, and how many of the seconds are left."""
        loop = asyncio.get_running_loop()
        left_s = timeout_s
        has_joined = False
        while True:
            connection = self.open_connection(address)
            if connection is not None:
                return connection, left_s
            if self._is_closed:
                raise StateError("the client is closed", "closed")
            task = self._connecting.get(address)
            is_begun_before = task is not None and not has_joined
            if task is None:
                task = loop.create_task(self._connect(address))
                self._connecting[address] = task
                task.add_done_callback(lambda done: self._connected(address, done))
            # Several callers may wait for one connection: it must survive if one of them gives up.
            left = await wait_in_time(task, left_s)
            if left is None:
                raise RequestTimeout(f"no connection to {address} within {timeout_s:g} s", address, timeout_s)
            left_s = left
            if task.cancelled():
                raise StateError("the client is closed", "closed")
            if is_begun_before and _is_refused(task):
                has_joined = True  # that attempt began before this request: the server may have started since
                continue
            return task.result(), left_s

    def _connected(self, address: str, task: asyncio.Task[Connection]) -> None:
        self._connecting.pop(address, None)
        if not task.cancelled() and task.exception() is None:
            self._connections[address] = task.result()

    async def _connect(self, address: str) -> Connection:
        endpoint = self._open_endpoint()
        name = address if self._ssl is None else f"{address} by TLS"
        try:
            host, port = parse_host(address)
        except ValueError as error:
            raise ConnectError(f"cannot connect: {error}", address) from error
        connecting = endpoint.loop.create_task(
            endpoint.loop.create_connection(
                lambda: make_channel(endpoint),
                host,
                port,
                ssl=self._ssl,
                server_hostname=None if self._ssl is None else host,
            )
        )
        try:
            if await wait_in_time(connecting, self._connect_timeout_s) is None:
                raise ConnectError(f"cannot connect to {name} within {self._connect_timeout_s:g} s", address)
            _, channel = connecting.result()
        except UnicodeError as error:
            raise ConnectError(f"cannot connect to {name}: host name cannot be resolved: {error}", address) from error
        except OSError as error:
            # A TLS error's text is more specific than its number.
            reason = str(error) if isinstance(error, SSLError) else error.strerror or str(error)
            if self._ssl is not None and (
                not reason or isinstance(error, ConnectionResetError | ConnectionAbortedError)
            ):
                reason = "the server closed the connection during the TLS handshake; it may not support TLS"
            raise ConnectError(f"cannot connect to {name}: {reason}", address) from error
        finally:
            connecting.cancel()
        connection: Connection = channel.handler
        return connection

    def _open_endpoint(self) -> Endpoint:
        if self._endpoint is None:
            loop = asyncio.get_running_loop()
            self._endpoint = Endpoint(
                loop,
                self._handlers,
                Deadlines(loop),
                make_hot_path=self._make_hot_path,
                on_close=self._lost,
                always_reads=True,
            )
            self._sweep = IdleSweep(loop, self._endpoint.channels, self._idle_timeout_s)
        return self._endpoint

    def _lost(self, connection: Connection, reason: str) -> None:
        for address in [address for address, known in self._connections.items() if known is connection]:
            del self._connections[address]
        if self._on_close is not None:
            self._on_close(connection, reason)


def _is_refused(task: asyncio.Task[Connection]) -> bool:
    """Whether connecting was refused, rather than timed out."""
    error = task.exception()
    cause = None if error is None else error.__cause__
    return isinstance(cause, OSError) and not isinstance(cause, TimeoutError)
