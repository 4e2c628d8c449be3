# cython: wraparound=False

"""Connection: requests and answers over a channel, in both directions.

- A plain handler runs inside the read. An asynchronous one is a task, kept here and cancelled when the connection is lost.
- Every request passes the connection's admission. At the limit of requests in progress, an incoming connection takes no more, and an
  outgoing one, which always reads, refuses them. At the limit of its client, requests are refused.
- An exception in a handler affects only its request, which is answered with an error.
- A hot path (`HotPath`) may handle frames faster; it passes the others to `handle_frame`.

This file never blocks, starts no threads, and does not depend on request codes. The hot path asks it for every read, so this is a hot module (types in
the `.pxd`); the SDK's wheel contains only the Python form.
"""

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from headrace.errors import (
    BadFrame,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    SendRequestError,
    TooManyRequests,
)
from headrace.model.connection_limits import MAX_REQUESTS_PER_ACCOUNT, MAX_REQUESTS_PER_CONNECTION
from headrace.protocol.frame import decode_frame, decode_request, frame_size
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, response_to
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.admission import OPEN, Admission
from headrace.remoting.channel import Channel
from headrace.remoting.client_usage import NOBODY, ClientUsage
from headrace.remoting.deadlines import Deadlines
from headrace.remoting.endpoint import Endpoint
from headrace.remoting.partial_frame import LENGTH_UNKNOWN
from headrace.remoting.turns import Turns

logger = logging.getLogger(__name__)

MAX_PENDING: Final = 65535  # limit: RocketMQ's own for requests without an answer yet
REMARK_LIMIT: Final = 1024  # limit: characters of a remark


class HotPath(Protocol):
    """Handles the most common frames of a connection without creating commands. Created by `Endpoint.make_hot_path` for each connection."""

    def opened(self) -> None:
        """The peer is known."""

    @property
    def begin_batch(self) -> Callable[[], None] | None:
        """As `FrameHandler.begin_batch`."""

    def take(self, data: bytes, position: int) -> int:
        """As `FrameHandler.take`. Must consult the connection's admission once for each batch of frames that it handles itself."""

    @property
    def end_batch(self) -> Callable[[], None] | None:
        """As `FrameHandler.end_batch`."""

    def take_answer(self, command: RemotingCommand) -> bool:
        """Returns whether this was the answer to one of its requests."""

    def lost(self, reason: str) -> None:
        """The connection is lost."""


class Connection:
    """A full-duplex connection: both sides may send requests. `admission` may be replaced at any time. Created by RemotingServer and RemotingClient."""

    __slots__ = (
        "__weakref__",
        "_counted",
        "_endpoint",
        "_in_progress",
        "_is_announced",
        "_pending",
        "_request_limit",
        "_tasks",
        "_turns",
        "admission",
        "begin_batch",
        "channel",
        "end_batch",
        "hot_path",
        "take",
    )

    def __init__(self, endpoint: Endpoint, channel: Channel) -> None:
        self._endpoint = endpoint
        self.channel = channel
        self.admission = self._counted = OPEN
        self._in_progress, self._request_limit = 0, endpoint.limits.requests_per_connection
        self._is_announced = False
        # Created when needed: an empty one costs half a kilobyte.
        self._turns: deque[tuple[RemotingCommand, Callable[[], RemotingCommand | None]]] | None = None
        self._pending: dict[int, asyncio.Future[RemotingCommand]] | None = None
        self._tasks: set[asyncio.Future[RemotingCommand | None]] | None = None
        self.hot_path: HotPath | None = None if endpoint.make_hot_path is None else endpoint.make_hot_path(self)
        hot_path = self.hot_path
        self.begin_batch = None if hot_path is None else hot_path.begin_batch
        self.take: Callable[[bytes, int], int] = self.take_frames if hot_path is None else hot_path.take
        self.end_batch = None if hot_path is None else hot_path.end_batch

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.remote}{' closed' if self.is_closed else ''}>"

    # -- state ------------------------------------------------------------------------------------------------------------

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it belongs to."""
        return self._endpoint.loop

    @property
    def deadlines(self) -> Deadlines:
        """The deadlines of its endpoint."""
        return self._endpoint.deadlines

    @property
    def turns(self) -> Turns | None:
        """The turns of the server's clients; None for an outgoing connection."""
        return self._endpoint.turns

    @property
    def remote(self) -> str:
        """The peer's `host:port`."""
        return self.channel.remote

    @property
    def remote_address(self) -> tuple[str, int]:
        """The peer's host and port."""
        return self.channel.remote_address

    @property
    def local_address(self) -> str:
        """The address of this host that the peer is connected to; empty if the connection is lost."""
        return self.channel.local_address

    @property
    def peer_certificate(self) -> str | None:
        """Subject of the peer's client certificate, if it presented one that was verified."""
        return self.channel.peer_certificate

    @property
    def opened_at_ms(self) -> int:
        """When it was opened, in wall-clock milliseconds."""
        return self.channel.opened_at_ms

    @property
    def last_active_ms(self) -> int:
        """When bytes were last read or written, in wall-clock milliseconds."""
        return self.channel.last_active_ms

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.channel.is_closed

    @property
    def tasks(self) -> frozenset[asyncio.Future[RemotingCommand | None]]:
        """The running asynchronous handlers of the peer's requests."""
        return frozenset(self._tasks or ())

    @property
    def is_busy(self) -> bool:
        """Whether answers wait to be sent, or the limit of requests in progress is reached."""
        return self._in_progress >= self._request_limit or bool(self._turns)

    @property
    def is_over_limit(self) -> bool:
        """Whether further requests of its client are refused."""
        return self.channel.usage.requests >= self._endpoint.limits.requests_per_account

    @property
    def is_held(self) -> bool:
        """Whether bytes or answers wait for the peer, so that no more of its requests are taken."""
        return self.channel.is_held or self.is_busy

    # -- the channel calls these ------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """Admits the peer and announces the connection."""
        endpoint = self._endpoint
        endpoint.connections.add(self)
        if endpoint.admit is not None:
            self.admission = endpoint.admit(self)
            self._count_for(self.admission)
        self._is_announced = True
        if self.hot_path is not None:
            self.hot_path.opened()
        if endpoint.on_open is not None:
            endpoint.on_open(self)

    def resumed(self) -> None:
        """Sends the answers that waited."""
        channel = self.channel
        while self._turns and not (channel.is_writing_paused or channel.is_closed or channel.must_wait()):
            self._answer_with(*self._turns.popleft())

    def lost(self, reason: str) -> None:
        """Fails pending requests, cancels running handlers, and reports the reason."""
        endpoint = self._endpoint
        endpoint.connections.discard(self)
        for future in (self._pending or {}).values():
            if not future.done():
                future.set_exception(SendRequestError(f"{self.remote} did not answer: {reason}", self.remote))
        if self.hot_path is not None:
            self.hot_path.lost(reason)
        for task in self._tasks or ():
            task.cancel()
        self._turns = None
        if endpoint.on_close is not None and self._is_announced:
            endpoint.on_close(self, reason)

    # -- frames in --------------------------------------------------------------------------------------------------------

    def take_frames(self, data: bytes, position: int) -> int:
        """Handles complete frames one by one, as commands; see `FrameHandler.take`."""
        end, view, channel = len(data), memoryview(data), self.channel
        limit = self._endpoint.limits.header_size
        decode = decode_frame if self._endpoint.always_reads else functools.partial(decode_request, header_limit=limit)
        while channel.close_reason is None:
            if end - position < LENGTH_UNKNOWN or not channel.takes_frames():
                return position
            stop = position + frame_size(data, position)
            if stop > end or channel.frame_must_wait():
                return position
            self.handle_command(decode(view[position:stop]))
            position = stop
        return end

    def handle_frame(self, frame: bytes | memoryview) -> None:
        """Decodes exactly one frame, including its length, and handles the command; an invalid one closes the connection."""
        try:
            command = decode_request(frame, self._endpoint.limits.header_size)
        except BadFrame as error:
            self.channel.refuse_bytes(error)
        else:
            self.handle_command(command)

    def handle_command(self, command: RemotingCommand) -> None:
        """Passes an answer to the request that waits for it, or a request to its handler, and sends the handler's answer."""
        if command.is_response:
            self._take_answer(command)
            return
        endpoint, admission = self._endpoint, self.admission
        limits = endpoint.limits
        if endpoint.always_reads and self._in_progress >= limits.requests_per_connection:
            remark = f"{self._in_progress} requests of this connection are being handled; try again later"
            self._answer(command, response_to(command, ResponseCode.SYSTEM_BUSY, remark))
            return
        if self.is_over_limit:
            self._refuse(command)
            return
        try:
            result = None if admission.check is None else admission.check(self, command)
            if result is not None:
                endpoint.refused_requests += 1
                endpoint.faults.refused(self.remote, command.code, result.remark or "")
            else:
                if self.admission is not self._counted:
                    self._count_for(self.admission)
                answer = endpoint.handlers.handler_for(command.code)(self, command)
                if answer is not None and not isinstance(answer, RemotingCommand):
                    self._start(command, answer)
                    return
                result = answer
        except Exception as error:  # noqa: BLE001 - the outermost loop of a request
            result = self._answer_for(command, error)
        self._answer(command, result)

    def _refuse(self, command: RemotingCommand) -> None:
        """Refuses a request because its client has too many in progress."""
        usage, limit = self.channel.usage, self._endpoint.limits.requests_per_account
        # compat: the beginning is RocketMQ's; tools search for it.
        remark = (
            f"[OVERLOAD]system busy, start flow control for a while: {usage.requests} requests of {usage.name} are in progress,"
            f" the limit is {limit} ({MAX_REQUESTS_PER_ACCOUNT}); wait for answers before sending more"
        )
        self.limit_reached(MAX_REQUESTS_PER_ACCOUNT, remark)
        self._answer(command, response_to(command, ResponseCode.SYSTEM_BUSY, remark))

    def limit_reached(self, limit: str, reason: str) -> None:
        """Counts that the peer has reached a limit, and logs it from time to time; `limit` is the name of its option."""
        self._endpoint.faults.limit_reached(limit, self.remote, reason)

    def request_refused(self, code: int, reason: str) -> None:
        """Logs that a part of a request was refused, in a bounded number of lines."""
        self._endpoint.faults.refused(self.remote, code, reason)

    def _count_for(self, admission: Admission) -> None:
        """Moves the count of requests in progress to the account of a new admission."""
        if admission.account != self._counted.account:
            channel, count = self.channel, self._in_progress
            channel.usage.requests -= count
            channel.count_for(admission.account)
            channel.usage.requests += count
        self._counted = admission

    def _take_answer(self, command: RemotingCommand) -> None:
        future = self._pending.get(command.opaque) if self._pending else None
        if future is not None and not future.done():
            future.set_result(command)
        elif self.hot_path is None or not self.hot_path.take_answer(command):
            logger.debug(
                "response dropped, no request is waiting for it remote=%s opaque=%d", self.remote, command.opaque
            )

    # -- handlers ---------------------------------------------------------------------------------------------------------

    def _start(self, command: RemotingCommand, answer: Awaitable[RemotingCommand | None]) -> None:
        if self._tasks is None:
            self._tasks = set()
        # Not wrapped in another coroutine: if that were cancelled before its first step, the handler's would never be awaited.
        task = asyncio.ensure_future(answer, loop=self._endpoint.loop)
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._finish, command))
        if command.body:
            self.channel.hold_request(len(command.body))
        self.count_requests(1)

    def count_requests(self, change: int) -> None:
        """Counts requests that are answered later; negative: requests that have been answered, or never will be."""
        limit, channel = self._request_limit, self.channel
        before, self._in_progress = self._in_progress, self._in_progress + change
        channel.usage.requests += change
        if change > 0:
            if self._in_progress >= limit > before:
                remark = f"{limit} requests are in progress; no more are read until some are answered"
                self.limit_reached(MAX_REQUESTS_PER_CONNECTION, remark)
                channel.pause()
        elif before > limit // 2 >= self._in_progress:
            channel.resume()

    def _finish(self, command: RemotingCommand, task: asyncio.Future[RemotingCommand | None]) -> None:
        tasks = self._tasks or set()
        tasks.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is None:
                self._answer(command, task.result())
            elif isinstance(error, Exception):
                self._answer(command, self._answer_for(command, error))
        if command.body:
            self.channel.hold_request(-len(command.body))
        self.count_requests(-1)

    def answer_in_turn(self, command: RemotingCommand, work: Callable[[], RemotingCommand | None]) -> None:
        """Answers an earlier request with the result of `work`: at once, or when the bytes waiting for the peer have been sent.

        For large answers triggered by events, such as those to held pulls: they are not created before there is room for them.
        """
        if self.channel.is_writing_paused or self._turns or self.channel.must_wait():
            if self._turns is None:
                self._turns = deque()
            self._turns.append((command, work))
            self.channel.pause()
        else:
            self._answer_with(command, work)

    def _answer_with(self, command: RemotingCommand, work: Callable[[], RemotingCommand | None]) -> None:
        try:
            answer = work()
        except Exception as error:  # noqa: BLE001 - the outermost loop of a request
            answer = self._answer_for(command, error)
        self._answer(command, answer)

    def answer_failed(self, command: RemotingCommand, error: Exception) -> None:
        """Answers a request whose deferred handling raised an exception."""
        self._answer(command, self._answer_for(command, error))

    def _answer(self, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        if answer is not None and not command.is_oneway:
            try:
                self.send(answer)
            except Exception as error:  # noqa: BLE001 - whatever cannot be encoded
                self.send(self._answer_for(command, error))

    def _answer_for(self, command: RemotingCommand, error: Exception) -> RemotingCommand:
        if isinstance(error, (RemoteProtocolError, LocalProtocolError)):
            # The peer's mistake, such as a missing field: it is reported in the answer, and needs no warning in our log.
            logger.debug("request refused remote=%s code=%d reason=%r", self.remote, command.code, str(error))
        else:
            self._endpoint.handler_errors += 1
            self._endpoint.faults.failed(self.remote, command.code, error)
        answer = response_to(command, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}"[:REMARK_LIMIT])
        # compat: answers to requests whose handler threw are always JSON (remoting spec 1.5).
        answer.serialize_type = SerializeType.JSON
        return answer

    # -- commands out -----------------------------------------------------------------------------------------------------

    def send(self, command: RemotingCommand) -> None:
        """Sends a command, answer or request. On a closed connection it is dropped. Raises LocalProtocolError if it cannot be encoded."""
        self.channel.write(command.encode())

    def send_oneway(self, command: RemotingCommand) -> None:
        """Sends a one-way request."""
        command.mark_oneway()
        self.channel.write(command.encode())

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Sends a request and waits for its answer, whatever its code.

        Raises RequestTimeout (also if the peer does not read for that long), SendRequestError if the connection breaks or is already closed,
        TooManyRequests, LocalProtocolError.
        """
        channel, loop, deadlines = self.channel, self._endpoint.loop, self._endpoint.deadlines
        end = loop.time() + timeout_ms / 1000
        if channel.is_writing_paused and not await channel.wait_writable(end):
            message = f"{self.remote} did not read within {timeout_ms} ms"
            raise RequestTimeout(message, self.remote, timeout_ms / 1000)
        if channel.is_closed:
            raise SendRequestError(f"the connection to {self.remote} is closed", self.remote)
        if self._pending is None:
            self._pending = {}
        if len(self._pending) >= MAX_PENDING:
            raise TooManyRequests(f"{MAX_PENDING} requests to {self.remote} are already pending", self.remote)
        opaque = command.opaque
        if opaque in self._pending:
            raise LocalProtocolError(f"duplicate opaque {opaque}: a request with it is pending")
        future: asyncio.Future[RemotingCommand] = loop.create_future()
        self._pending[opaque] = future
        bucket = deadlines.add(future, end - loop.time(), lambda: self._timeout(command.code, timeout_ms))
        try:
            self.send(command)
            return await future
        finally:
            self._pending.pop(opaque, None)
            deadlines.remove(future, bucket)

    def _timeout(self, code: int, timeout_ms: int) -> RequestTimeout:
        message = f"{self.remote} did not answer request {int(code)} within {timeout_ms} ms"
        return RequestTimeout(message, self.remote, timeout_ms / 1000)

    def silent_since(self, moment: float) -> bool:
        """Whether nothing was read since `moment` (the loop's time, seconds)."""
        return self.channel.silent_since(moment)

    # -- the end ----------------------------------------------------------------------------------------------------------

    def close(self, reason: str, level: int = logging.INFO) -> None:
        """Closes once all written bytes are sent. Logs the reason, once."""
        self.channel.close(reason, level)

    def abort(self, reason: str, level: int = logging.WARNING) -> None:
        """Closes at once; unsent bytes are lost."""
        self.channel.abort(reason, level)


def make_channel(endpoint: Endpoint, usage: ClientUsage = NOBODY) -> Any:
    """Creates a channel with a connection: the protocol factory of listeners and clients. `usage`: of its address, which the connection has joined.

    The type is Any because the compiled Channel cannot inherit from asyncio.Protocol, which event loops are declared to take.
    """
    return Channel(endpoint, functools.partial(Connection, endpoint), usage)
