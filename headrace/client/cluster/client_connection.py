"""ClientConnection: a connection on which sends go the shortest way there is: no command object, no coroutine, no timer of their own.

    ask(opaque, head, body) ─► future, one write for all of a turn ─► the broker's answer ─► `take_answers` ─► future

An answer that is not what nearly all answers to sends are (an error, a binary header) takes the ordinary way, and the future then has a RemotingCommand.
"""

import asyncio
from typing import Any, Final

from headrace.client.cluster.answer_scan import Asked, SendAnswer, take_answers
from headrace.errors import RequestTimeout, SendRequestError
from headrace.protocol.remoting_command import RemotingCommand
from headrace.remoting.connection import MAX_PENDING, Connection
from headrace.remoting.endpoint import Endpoint

_TAIL_LIMIT: Final = (
    64 * 1024
)  # limit: a frame that has only begun is put together again; larger ones are the decoder's


class ClientConnection(Connection):
    """A connection to a broker or a name server."""

    __slots__ = ("_asked", "_bucket", "_bucket_time", "_bucket_timeout", "_tail")

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._asked: dict[int, Asked] = {}
        self._tail = b""
        self._bucket: dict[asyncio.Future[Any], Any] = {}
        self._bucket_time = -1.0
        self._bucket_timeout = 0.0

    @property
    def may_ask(self) -> bool:
        """Whether `ask` is possible: it is open, the peer reads, and not too much is under way."""
        return not (self._is_writing_paused or self.is_closed) and len(self._asked) < MAX_PENDING

    def ask(
        self, opaque: int, head: bytes, body: bytes, timeout_s: float
    ) -> "asyncio.Future[SendAnswer | RemotingCommand]":
        """Sends a request, whose frame is the two parts, and returns the future of its answer.

        The future fails with RequestTimeout and SendRequestError. Who does not see it through calls `forget`. Only when `may_ask`.
        """
        endpoint = self._endpoint
        loop = endpoint.loop
        now = loop.time()
        # The loop's time stands still for a turn, and most callers give the same time-out.
        if now != self._bucket_time or timeout_s != self._bucket_timeout:
            self._bucket = endpoint.deadlines.bucket(timeout_s)
            self._bucket_time, self._bucket_timeout = now, timeout_s
        future: asyncio.Future[SendAnswer | RemotingCommand] = loop.create_future()
        bucket = self._bucket
        bucket[future] = self._no_answer
        is_alone = not self._asked
        self._asked[opaque] = future, bucket
        if is_alone and not self._batch and not self._is_batching:
            # Nobody to share the write with.
            self._put(head + body)
        else:
            self.write_soon(head, body)
        return future

    def forget(self, opaque: int) -> None:
        """Nobody waits for the answer any more."""
        asked = self._asked.pop(opaque, None)
        if asked is not None:
            future, bucket = asked
            bucket.pop(future, None)

    def data_received(self, data: bytes) -> None:
        """Takes the answers to what was asked; all else goes the ordinary way."""
        if self._partial is not None or self._rest:
            super().data_received(data)
            return
        if self._tail:
            data = self._tail + data
            self._tail = b""
        at, is_cut = take_answers(data, self._asked) if self._asked else (0, False)
        if at:
            self._last_active = self._last_read = self._endpoint.loop.time()
        if at == len(data):
            return
        rest = data[at:] if at else data
        if is_cut and len(rest) < _TAIL_LIMIT:
            self._tail = rest
        else:
            super().data_received(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails what was asked and not answered."""
        asked = list(self._asked.values())
        self._asked.clear()
        super().connection_lost(exc)
        self._tail = b""
        reason = self._close_reason or (f"connection lost: {exc}" if exc else "closed by the peer")
        for future, bucket in asked:
            bucket.pop(future, None)
            if not future.done():
                future.set_exception(SendRequestError(f"{self.remote} did not answer: {reason}", self.remote))

    def _take_answer(self, command: RemotingCommand) -> None:
        asked = self._asked.pop(command.opaque, None)
        if asked is None:
            super()._take_answer(command)
            return
        future, bucket = asked
        bucket.pop(future, None)
        if not future.done():
            future.set_result(command)

    def _no_answer(self) -> RequestTimeout:
        message = f"{self.remote} did not answer a send in time"
        return RequestTimeout(message, self.remote)
