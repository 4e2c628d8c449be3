"""The supervisor's side of the control socket: many clients, one loop; nothing blocks, and no error affects other requests.

A client sends a line, reads its answer, and may then send another. A request may be answered later (`stop` when it
is complete), so its handler receives an `Answer` to call. The requests are defined in `control_requests`.

What clients can make the supervisor hold is bounded: so many connections, one request of each, of so many bytes, and one
unread answer. Who sends anything else is disconnected. What is wrong with clients is logged at most every few seconds, with a
count.
"""

import contextlib
import logging
import os
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from ipc.control_socket import decode, encode, listen

MAX_CLIENTS: Final = (
    64  # limit: operators, scripts and probes at the same moment; beyond it the one that has been idle longest goes
)
MAX_REQUEST_BYTES: Final = 65_536  # limit: a request has a hundred
_LOG_EVERY_S: Final = 5.0
_READ_BYTES: Final = 65_536
_MODE: Final = 0o600

logger = logging.getLogger(__name__)


class _Client:
    """A connection: the received part of a request, whether one is being handled, and the unsent part of its answer."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.is_waiting = False
        self.unsent = b""
        self.is_open = True

    @property
    def is_busy(self) -> bool:
        """Whether its last request is not answered yet, or its answer is not read."""
        return self.is_waiting or bool(self.unsent)


class Answer:
    """Answers one request, once, now or later."""

    def __init__(self, server: "ControlServer", client: _Client) -> None:
        self._server = server
        self._client = client

    @property
    def is_wanted(self) -> bool:
        """Whether the client is still connected."""
        return self._client.is_open

    def __call__(self, message: dict[str, Any]) -> None:
        """Send the answer. It is dropped if the client has disconnected."""
        self._server.answer(self._client, message)


Handler = Callable[[dict[str, Any], Answer], None]


class ControlServer:
    """Listens at `path`; clients wait until `serve` sets the handler of requests."""

    def __init__(self, path: str, selector: selectors.BaseSelector) -> None:
        """Create the socket, replacing a predecessor's. Raises OSError."""
        self._path = path
        self._selector = selector
        self._listener = listen(path)
        os.chmod(path, _MODE)
        self._clients: list[_Client] = []  # in the order of their last requests
        self._faults = 0
        self._logged_at_s = -_LOG_EVERY_S

    def serve(self, handle: Handler) -> None:
        """Accept clients from now on; `handle` is called with each request and a function that answers it."""
        self._handle = handle
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def release(self) -> None:
        """In a child: close the descriptors. The supervisor keeps the socket."""
        for client in self._clients:
            client.connection.close()
        self._listener.close()

    def close(self) -> None:
        """Stop listening, disconnect all clients, remove the socket."""
        for client in tuple(self._clients):
            self._hang_up(client)
        self._selector.unregister(self._listener)
        self._listener.close()
        os.unlink(self._path)

    def _accept(self) -> None:
        for _ in range(MAX_CLIENTS):
            try:
                connection, _address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._log_fault(f"accept failed: {error.strerror}")
                return
            self._welcome(connection)

    def _welcome(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if len(self._clients) >= MAX_CLIENTS:
            idle = next((client for client in self._clients if not client.is_busy), self._clients[0])
            self._refuse(idle, f"more than {MAX_CLIENTS} connections; the longest idle one was closed")
        client = _Client(connection)
        self._clients.append(client)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._serve(client))

    def _serve(self, client: _Client) -> None:
        if not client.is_open:
            return  # closed while others were served in this round
        try:
            self._send_rest(client)
            data = client.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up(client)
        elif client.is_busy:
            self._refuse(client, "request received before the previous one was answered")
        else:
            self._take(client, client.received + data)

    def _take(self, client: _Client, received: bytes) -> None:
        """Handle the request, if it is complete."""
        line, newline, rest = received.lstrip().partition(b"\n")
        if len(line) > MAX_REQUEST_BYTES:
            self._refuse(client, f"request larger than {MAX_REQUEST_BYTES} bytes")
        elif not newline:
            client.received = line
        elif rest.strip():
            self._refuse(client, "request received before the previous one was answered")
        else:
            client.received = b""
            try:
                request = decode(line)
            except ValueError as error:
                self._refuse(client, str(error))
                return
            self._clients.remove(client)
            self._clients.append(client)
            client.is_waiting = True
            answer = Answer(self, client)
            try:
                self._handle(request, answer)
            except Exception as error:  # the outermost call of a request
                logger.exception("control request failed command=%s", request.get("command"))
                answer({"ok": False, "error": f"the request failed: {type(error).__name__}"})

    def answer(self, client: _Client, message: dict[str, Any]) -> None:
        """Send an answer as far as the client reads it. Called once for each request."""
        if not client.is_open or not client.is_waiting:
            return
        client.is_waiting = False
        client.unsent = encode(message)
        try:
            self._send_rest(client)
        except OSError:
            self._hang_up(client)

    def _send_rest(self, client: _Client) -> None:
        """Send as much as the socket accepts, and wait for room for the rest. Raises OSError."""
        if client.unsent:
            with contextlib.suppress(BlockingIOError):
                client.unsent = client.unsent[client.connection.send(client.unsent) :]
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
            self._selector.modify(client.connection, events, lambda: self._serve(client))

    def _refuse(self, client: _Client, reason: str) -> None:
        self._log_fault(reason)
        self._hang_up(client)

    def _hang_up(self, client: _Client) -> None:
        if client.is_open:
            client.is_open = False
            self._clients.remove(client)
            self._selector.unregister(client.connection)
            client.connection.close()

    def _log_fault(self, reason: str) -> None:
        self._faults += 1
        now_s = time.monotonic()
        if now_s - self._logged_at_s >= _LOG_EVERY_S:
            logger.warning("control client rejected error=%r rejections_since_last_log=%d", reason, self._faults)
            self._faults, self._logged_at_s = 0, now_s
