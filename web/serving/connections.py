"""Connection: a browser's connection, with limits that Sanic does not have: their number, and the whole time of a request.

Sanic's own timeouts begin again with every byte.
"""

import asyncio
import time
from typing import Any, Final

from sanic.exceptions import RequestTimeout
from sanic.http import Stage
from sanic.server.protocols.http_protocol import HttpProtocol

MOST_CONNECTIONS: Final = 512
HEAD_S: Final = 15.0
"""For the head of a request, from its first byte."""
BODY_S: Final = 60.0
"""For the whole request."""
IDLE_S: Final = 30.0
"""For the next request of a connection."""
_CHECK_S: Final = 1.0


class Connection(HttpProtocol):
    """One connection."""

    __slots__ = ("_is_refused", "_timer", "began")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._is_refused = False
        self.began = 0.0
        """When the request or the connection began."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A connection beyond the limit takes the place of one that waits for its next request; if there is none, it is closed."""
        if len(self.connections) >= MOST_CONNECTIONS:
            idle = [one for one in self.connections if one.is_idle]
            if not idle:
                self._is_refused = True
                transport.abort()
                return
            min(idle, key=lambda one: one.began).close()
        self.began = time.monotonic()
        super().connection_made(transport)  # type: ignore[no-untyped-call]
        self._timer = self.loop.call_later(_CHECK_S, self._check_request)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request."""
        is_open = self.transport is not None and not self.transport.is_closing()
        return is_open and (self.http is None or self.http.stage is Stage.IDLE)

    def connection_lost(self, error: Exception | None) -> None:
        """Ends what was begun."""
        if self._is_refused:
            return
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(error)  # type: ignore[no-untyped-call]

    def data_received(self, data: bytes) -> None:
        """Data between two requests begins a request."""
        if self.is_idle:
            self.began = time.monotonic()
        super().data_received(data)

    def _check_request(self) -> None:
        http, task = self.http, self._task
        if task is None:
            return
        self._timer = self.loop.call_later(_CHECK_S, self._check_request)
        took_s = time.monotonic() - self.began
        is_late = http is not None and (
            (http.stage is Stage.REQUEST and took_s > HEAD_S)
            or (http.stage is Stage.HANDLER and http.request_body and took_s > BODY_S)
        )
        if is_late:
            http.exception = RequestTimeout("the request did not arrive in time")
            task.cancel()
