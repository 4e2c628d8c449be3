"""SendPipeline: sends on a connection without a command object, a coroutine or a timer for each.

    ask(opaque, head, body) ─► future, one write for all of a turn ─► the broker's answer ─► `take_answers` ─► future

An answer that is not of the usual form (an error, a binary header) is decoded as a command, and the future's result is a RemotingCommand.
"""

import asyncio
from typing import Any

from headrace.client.cluster.answer_scan import Asked, SendAnswer, take_answers
from headrace.errors import RequestTimeout, SendRequestError
from headrace.protocol.remoting_command import RemotingCommand
from headrace.remoting.connection import MAX_PENDING, Connection
from headrace.remoting.deadlines import Deadlines


class SendPipeline:
    """The `HotPath` of a connection to a broker or a name server."""

    __slots__ = (
        "_asked",
        "_bucket",
        "_bucket_time",
        "_bucket_timeout",
        "_channel",
        "_deadlines",
        "_loop",
        "connection",
    )

    begin_batch = end_batch = None

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._channel = connection.channel
        self._loop: asyncio.AbstractEventLoop = connection.loop
        self._deadlines: Deadlines = connection.deadlines
        self._asked: dict[int, Asked] = {}
        self._bucket: dict[asyncio.Future[Any], Any] = {}
        self._bucket_time = -1.0
        self._bucket_timeout = 0.0

    def __len__(self) -> int:
        """How many sends wait for their answer."""
        return len(self._asked)

    @property
    def may_ask(self) -> bool:
        """Whether `ask` is possible: it is open, the peer reads, and not too much is under way."""
        channel = self._channel
        return not (channel.is_writing_paused or channel.is_closed) and len(self._asked) < MAX_PENDING

    def ask(
        self, opaque: int, head: bytes, body: bytes, timeout_s: float
    ) -> "asyncio.Future[SendAnswer | RemotingCommand]":
        """Sends a request, whose frame is the two parts, and returns the future of its answer.

        The future fails with RequestTimeout and SendRequestError. A caller that stops waiting calls `forget`. Only when `may_ask`.
        """
        now = self._loop.time()
        # The loop's time stands still for a turn, and most callers give the same time-out.
        if now != self._bucket_time or timeout_s != self._bucket_timeout:
            self._bucket = self._deadlines.bucket(timeout_s)
            self._bucket_time, self._bucket_timeout = now, timeout_s
        future: asyncio.Future[SendAnswer | RemotingCommand] = self._loop.create_future()
        bucket = self._bucket
        bucket[future] = self._no_answer
        is_alone = not self._asked
        self._asked[opaque] = future, bucket
        self._channel.write_soon(head, body, alone=is_alone)
        return future

    def forget(self, opaque: int) -> None:
        """Nobody waits for the answer any more."""
        asked = self._asked.pop(opaque, None)
        if asked is not None:
            future, bucket = asked
            bucket.pop(future, None)

    def _no_answer(self) -> RequestTimeout:
        message = f"{self._channel.remote} did not answer a send in time"
        return RequestTimeout(message, self._channel.remote)

    # -- the connection calls these ---------------------------------------------------------------------------------------

    def opened(self) -> None:
        """The peer is known."""

    def take(self, data: bytes, position: int) -> int:
        """Takes the answers to what was asked; everything behind the first other frame is handled as commands."""
        if self._asked:
            position, is_cut = take_answers(data, self._asked, position)
            if is_cut or position == len(data):
                return position
        return self.connection.take_frames(data, position)

    def take_answer(self, command: RemotingCommand) -> bool:
        """Gives the answer to its future, as a command; whether there was one."""
        asked = self._asked.pop(command.opaque, None)
        if asked is None:
            return False
        future, bucket = asked
        bucket.pop(future, None)
        if not future.done():
            future.set_result(command)
        return True

    def lost(self, reason: str) -> None:
        """Fails what was asked and not answered."""
        asked = list(self._asked.values())
        self._asked.clear()
        remote = self._channel.remote
        for future, bucket in asked:
            bucket.pop(future, None)
            if not future.done():
                future.set_exception(SendRequestError(f"{remote} did not answer: {reason}", remote))
