"""The supervisor's end of the control socket: many clients, one loop, nothing that blocks.

A request may be answered later (`stop` is answered when it is done), so its handler is given a function to answer with. What
the requests mean is in `control_requests`.
"""

import logging
import os
import selectors
import socket
from collections.abc import Callable
from typing import Any, Final

from ipc.control_socket import LineReader, encode, listen

Answer = Callable[[dict[str, Any]], None]
Handler = Callable[[dict[str, Any], Answer], None]

_READ_BYTES: Final = 65_536
_MODE: Final = 0o600
_SEND_TIMEOUT_S: Final = 1.0  # limit: a client that does not read its one line is not worth the supervisor's time

log = logging.getLogger(__name__)


class ControlServer:
    """Listens at `path`; who connects waits until `serve` says who handles requests."""

    def __init__(self, path: str, selector: selectors.BaseSelector) -> None:
        """Make the socket, in place of a predecessor's. Raises OSError."""
        self._path = path
        self._selector = selector
        self._listener = listen(path)
        os.chmod(path, _MODE)
        self._clients: set[socket.socket] = set()

    def serve(self, handle: Handler) -> None:
        """Accept clients from now on; `handle` is called with each request and a function that answers it."""
        self._handle = handle
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def let_go(self) -> None:
        """In a child: close the descriptors. The socket stays the supervisor's."""
        for client in self._clients:
            client.close()
        self._listener.close()

    def close(self) -> None:
        """Stop listening, hang up, remove the socket."""
        for client in tuple(self._clients):
            self._hang_up(client)
        self._selector.unregister(self._listener)
        self._listener.close()
        os.unlink(self._path)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        client.setblocking(False)
        self._clients.add(client)
        reader = LineReader()
        self._selector.register(client, selectors.EVENT_READ, lambda: self._read(client, reader))

    def _read(self, client: socket.socket, reader: LineReader) -> None:
        try:
            data = client.recv(_READ_BYTES)
            requests = reader.feed(data)
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            log.warning("closed a control connection: %s", error)
            self._hang_up(client)
            return
        if not data:
            self._hang_up(client)
            return
        for request in requests:
            self._handle(request, lambda answer: self._answer(client, answer))

    def _answer(self, client: socket.socket, answer: dict[str, Any]) -> None:
        if client not in self._clients:
            return  # it did not wait
        try:
            client.settimeout(_SEND_TIMEOUT_S)
            client.sendall(encode(answer))
            client.setblocking(False)
        except OSError as error:
            log.warning("could not answer a control request: %s", error)
            self._hang_up(client)

    def _hang_up(self, client: socket.socket) -> None:
        self._clients.discard(client)
        self._selector.unregister(client)
        client.close()
