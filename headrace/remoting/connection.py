"""One connection, accepted or made: frames in, answers out, and questions of our own.

- All frames that one read brings are handled in one go, and their answers leave with one write (`begin_batch`, `end_batch`).
- A plain handler runs inside the read; an asynchronous one is a task, kept here and cancelled when the connection is lost.
- An accepted connection takes no requests while answers wait for its peer (HIGH_WATER), while too many of its requests are at work
  (`admission.max_tasks`), or while the role's memory for connections is used up (`buffer_budget`). What was read by then is kept, and nothing more is read.
  What was taken is answered. The peer may take its time, as long as it reads at all: see `peer_watch`.
- A connection that was made always reads: two peers that each wait for the other to read would wait for ever. What it sends is bounded by those
  who send (`max_in_flight` of producers), and requests of its peer beyond that number are refused.
- Bytes that are no frames close the connection. A TLS hello is told apart by its first byte.
- Whatever a peer does, and whatever our own code makes of it, ends with the request or with the connection: nothing is raised into the event loop.
  Faults are logged through `fault_log`.

A subclass may override `take_frames` to handle frames in a shorter way, and give the others to `handle_frame`.

This file never blocks, starts no thread, and knows no request code.
"""

import asyncio
import functools
import logging
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, cast

from headrace.errors import (
    BadFrame,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    SendRequestError,
    TooManyRequests,
)
from headrace.protocol.frame import FRAME_MAX_LENGTH, decode_frame, decode_request, frame_size
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, response_to
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.admission import OPEN
from headrace.remoting.buffer_budget import LEAST_RATE
from headrace.remoting.endpoint import Endpoint
from headrace.remoting.partial_frame import LENGTH_UNKNOWN, PartialFrame

logger = logging.getLogger(__name__)

TLS_HANDSHAKE: Final = 0x16
"""First byte of a TLS connection. A frame's is always 0: its length is below 2^24."""

HIGH_WATER: Final = (
    64 << 10
)  # limit: bytes that wait to be sent to an accepted peer before no more of its requests are taken
CLIENT_HIGH_WATER: Final = 1 << 20  # limit: the same for requests of ours; beyond it `request` waits
BATCH_LIMIT: Final = 1 << 20  # limit: what one read's answers may grow to before they are written
MAX_PENDING: Final = 65535  # limit: RocketMQ's own for requests without an answer yet
REMARK_LIMIT: Final = 1024  # limit: a remark is for people


class Connection(asyncio.Protocol):
    """A full-duplex connection: both sides may ask.

    `opened_at_ms` is wall-clock time. `admission` may be replaced at any time. Made by RemotingServer and RemotingClient.
    """

    __slots__ = (
        "__weakref__",
        "_batch",
        "_batch_size",
        "_buffered_in",
        "_buffered_out",
        "_close_reason",
        "_closed",
        "_endpoint",
        "_has_room",
        "_is_announced",
        "_is_batching",
        "_is_draining",
        "_is_lost",
        "_is_new",
        "_is_waiting_for_room",
        "_is_writing_paused",
        "_last_active",
        "_last_read",
        "_partial",
        "_pending",
        "_read_bytes",
        "_rest",
        "_seen_moved",
        "_stalled_since",
        "_tasks",
        "_transport",
        "_turns",
        "_writable",
        "_written_bytes",
        "admission",
        "held_bytes",
        "moved_at",
        "opened_at_ms",
        "remote",
        "remote_address",
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.admission = OPEN
        self._transport: asyncio.Transport | None = None
        self._is_new = True
        self._partial: PartialFrame | None = None
        self._rest = b""
        # Made when it is needed: an empty one costs half a kilobyte.
        self._turns: deque[tuple[RemotingCommand, Callable[[], RemotingCommand | None]]] | None = None
        self._is_waiting_for_room = self._has_room = False
        self._buffered_in = self._buffered_out = self.held_bytes = 0
        self._read_bytes = self._written_bytes = self._seen_moved = 0
        self.moved_at = time.monotonic()
        self._stalled_since: float | None = None
        self._batch: list[bytes] = []
        self._batch_size = 0
        self._is_announced = False
        self._is_batching = False
        self._is_writing_paused = False
        self._is_lost = False
        self._is_draining = False
        self._close_reason: str | None = None
        self._last_active = endpoint.loop.time()
        self._last_read = 0.0
        self._pending: dict[int, asyncio.Future[RemotingCommand]] | None = None
        self._tasks: set[asyncio.Future[RemotingCommand | None]] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] | None = None
        self.opened_at_ms = 0
        self.remote_address: tuple[str, int] = ("", 0)
        self.remote = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.remote}{' closed' if self.is_closed else ''}>"

    # -- what it is -------------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_lost or self._transport is None or self._transport.is_closing()

    @property
    def idle_s(self) -> float:
        """Seconds since something was read, or written to a peer that reads."""
        return self._endpoint.loop.time() - self._last_active

    @property
    def last_active_ms(self) -> int:
        """When something was last read or written, in wall-clock milliseconds."""
        return int((time.time() - self.idle_s) * 1000)

    @property
    def tasks(self) -> frozenset[asyncio.Future[RemotingCommand | None]]:
        """The asynchronous handlers at work on requests of the peer."""
        return frozenset(self._tasks or ())

    @property
    def is_held(self) -> bool:
        """Whether what was sent, or what the peer wants, waits: no more of its requests are taken until then."""
        return (
            self._is_writing_paused
            or self._is_waiting_for_room
            or bool(self._turns)
            or (self._tasks is not None and len(self._tasks) >= self.admission.max_tasks)
        )

    @property
    def _is_stopped(self) -> bool:
        return self.is_held and not self._endpoint.always_reads

    # -- asyncio calls these ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sets the socket's options and announces the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self.opened_at_ms = int(time.time() * 1000)
        endpoint = self._endpoint
        endpoint.connections.add(self)
        try:
            self._open(self._transport)
        except Exception as error:  # noqa: BLE001 - the event loop would log a stack trace
            self._fail(error)

    def _open(self, transport: asyncio.Transport) -> None:
        endpoint = self._endpoint
        peer = transport.get_extra_info("peername")
        if not peer:
            # Reset between the kernel's accept and ours.
            self.abort("reset by the peer before it was accepted", logging.DEBUG)
            return
        transport.set_write_buffer_limits(high=CLIENT_HIGH_WATER if endpoint.always_reads else HIGH_WATER)
        self.remote_address = (peer[0], peer[1])
        self.remote = f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}"
        connected = transport.get_extra_info("socket")
        if connected is not None:
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                pass  # the peer is gone already; connection_lost follows
        if endpoint.max_connections and len(endpoint.connections) > endpoint.max_connections:
            self.close(f"more than {endpoint.max_connections} connections")
            return
        if endpoint.admit is not None:
            self.admission = endpoint.admit(self)
        self._is_announced = True
        if endpoint.on_open is not None:
            endpoint.on_open(self)

    def data_received(self, data: bytes) -> None:
        """Handles all whole frames in the bytes; answers with one write."""
        if self._is_lost or self._close_reason is not None:
            return
        if self._is_new:
            self._is_new = False
            if self.begins_tls(data):
                return
        self._last_active = self._last_read = self._endpoint.loop.time()
        self._read_bytes += len(data)
        try:
            self._receive(data)
        except BadFrame as error:
            self.refuse_bytes(error)
        except Exception as error:  # noqa: BLE001 - the event loop would log a stack trace
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails what was asked and not answered, cancels the handlers at work, tells the listener why."""
        self._is_lost = True
        reason = self._close_reason or (f"connection lost: {exc}" if exc else "closed by the peer")
        if self._close_reason is None:
            logger.debug("connection closed remote=%s reason=%r", self.remote, reason)
        endpoint = self._endpoint
        endpoint.connections.discard(self)
        for future in (self._pending or {}).values():
            if not future.done():
                future.set_exception(SendRequestError(f"{self.remote} did not answer: {reason}", self.remote))
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        for task in self._tasks or ():
            task.cancel()
        self._batch.clear()
        self._give_back()
        if endpoint.on_close is not None and self._is_announced:
            try:
                endpoint.on_close(self, reason)
            except Exception as error:  # noqa: BLE001 - the event loop would log a stack trace
                self._fail(error)

    def pause_writing(self) -> None:
        """More waits for the peer than should."""
        self._is_writing_paused = True
        self._hold()

    def resume_writing(self) -> None:
        """The peer has read nearly all of it."""
        self._is_writing_paused = False
        self._stalled_since = None
        self._count(self._buffered_in, 0)
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None
        # order: not from within the transport's own write, which calls this: answers of the next frames would overtake it.
        self._endpoint.loop.call_soon(self._release)

    # -- frames in --------------------------------------------------------------------------------------------------------

    def begins_tls(self, data: bytes) -> bool:
        """Whether the first bytes of the connection are a TLS hello, which is refused: listeners here speak plain text.

        The one place where TLS would begin: the bytes given are the whole of what was read so far.
        """
        if data[0] != TLS_HANDSHAKE:
            return False
        self.close("it speaks TLS, which this listener does not; connect without tls.enable", logging.WARNING)
        return True

    def refuse_bytes(self, error: BadFrame) -> None:
        """Closes the connection because what it brought are no frames; says so once."""
        self._endpoint.bad_frames += 1
        self.close(f"not a RocketMQ frame: {error}", logging.WARNING)

    def _fail(self, error: Exception) -> None:
        """Closes the connection because handling what it brought went wrong in a way that nobody expected."""
        self._endpoint.handler_errors += 1
        self._endpoint.faults.failed(self.remote, -1, error)
        self.abort(f"handling its bytes failed: {type(error).__name__}", logging.DEBUG)

    def _receive(self, data: bytes) -> None:
        position = 0
        partial = self._partial
        if partial is not None:
            position = partial.fill(data)
            if not partial.is_whole:
                return
        elif self._rest:
            data = self._rest + data
            self._rest = b""
        self.begin_batch()
        try:
            if partial is not None:
                self._partial = None
                frame = partial.take()
                if not self.take_frames(frame, 0):
                    # Its length is known only now, or it has to wait.
                    data, position = frame + data[position:], 0
            position = self.take_frames(data, position)
        finally:
            self.end_batch()
        self._keep(data, position)

    def _keep(self, data: bytes, position: int) -> None:
        """Keeps what was not handled: frames that wait, or the beginning of one."""
        size = len(data) - position
        if not size or self.is_closed:
            self._count(0, self._buffered_out)
            return
        if not self._is_stopped:
            needed = frame_size(data, position) if size >= LENGTH_UNKNOWN else LENGTH_UNKNOWN
            budget = self._endpoint.budget
            if needed > size:
                if budget.fits(needed - self._buffered_in, has_waited=self._has_room):
                    self._partial = PartialFrame(data[position:], needed)
                    self._count(needed, self._buffered_out)
                    return
                self._wait_for_room(needed)
        self._rest = data[position:]
        self._count(size, self._buffered_out)

    def _wait_for_room(self, size: int) -> None:
        self._is_waiting_for_room = True
        self._hold()
        self._endpoint.budget.wait(self, size)

    def room_found(self) -> None:
        """There is room in the budget for what it waits for."""
        self._is_waiting_for_room = False
        self._has_room = True
        self._release()
        self._has_room = False

    def _count(self, buffered_in: int, buffered_out: int) -> None:
        """Tells the budget how many bytes are held, read and unsent."""
        self._buffered_in, self._buffered_out = buffered_in, buffered_out
        held = buffered_in + buffered_out
        if held != self.held_bytes:
            change, self.held_bytes = held - self.held_bytes, held
            self._endpoint.budget.hold(change)

    def _give_back(self) -> None:
        self._partial = None
        self._rest = b""
        self._turns = None
        self._count(0, 0)

    def take_frames(self, data: bytes, position: int) -> int:
        """Handles the whole frames in `data` from `position` on, until no more are taken; returns where the first begins that was not handled.

        Of a connection that was closed meanwhile all counts as handled. Raises BadFrame.
        """
        end, view = len(data), memoryview(data)
        decode = decode_frame if self._endpoint.always_reads else decode_request
        while self._close_reason is None:
            if end - position < LENGTH_UNKNOWN or self._is_stopped:
                return position
            stop = position + frame_size(data, position)
            if stop > end or self._must_wait():
                return position
            self.handle_command(decode(view[position:stop]))
            position = stop
        return end

    def _must_wait(self) -> bool:
        """Whether what comes next has to wait until the role holds less for others; sees to it that it goes on then."""
        if not self._endpoint.budget.is_tight:
            return False
        if not self._is_waiting_for_room:
            self._wait_for_room(0)
        return True

    def _take_rest(self) -> None:
        """Handles what was read and had to wait."""
        data, self._rest = self._rest, b""
        if not data:
            return
        try:
            self.begin_batch()
            try:
                position = self.take_frames(data, 0)
            finally:
                self.end_batch()
            self._keep(data, position)
        except BadFrame as error:
            self.refuse_bytes(error)
        except Exception as error:  # noqa: BLE001 - the event loop would log a stack trace
            self._fail(error)

    def handle_frame(self, frame: bytes | memoryview) -> None:
        """Decodes exactly one frame, its length included, and handles the command; a bad one closes the connection."""
        try:
            command = decode_request(frame)
        except BadFrame as error:
            self.refuse_bytes(error)
        else:
            self.handle_command(command)

    def handle_command(self, command: RemotingCommand) -> None:
        """Finds who waits for it, if it is an answer, else its handler, and sends what that returns."""
        if command.is_response:
            self._take_answer(command)
            return
        endpoint = self._endpoint
        admission = self.admission
        if endpoint.always_reads and self._tasks is not None and len(self._tasks) >= admission.max_tasks:
            remark = f"{admission.max_tasks} requests of this connection are being handled; try again later"
            self._answer(command, response_to(command, ResponseCode.SYSTEM_BUSY, remark))
            return
        try:
            result = None if admission.check is None else admission.check(self, command)
            if result is None:
                answer = endpoint.handlers.handler_for(command.code)(self, command)
                if answer is not None and not isinstance(answer, RemotingCommand):
                    self._start(command, answer)
                    return
                result = answer
        except Exception as error:  # noqa: BLE001 - the outermost loop of a request
            result = self._answer_for(command, error)
        self._answer(command, result)

    def _take_answer(self, command: RemotingCommand) -> None:
        future = self._pending.get(command.opaque) if self._pending else None
        if future is None or future.done():
            logger.debug("answer dropped, nobody waits for it remote=%s opaque=%d", self.remote, command.opaque)
        else:
            future.set_result(command)

    # -- handlers ---------------------------------------------------------------------------------------------------------

    def _start(self, command: RemotingCommand, answer: Awaitable[RemotingCommand | None]) -> None:
        if self._tasks is None:
            self._tasks = set()
        # No coroutine of our own around it: one cancelled before its first step would leave the handler's never awaited.
        task = asyncio.ensure_future(answer, loop=self._endpoint.loop)
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._finish, command))
        if len(self._tasks) >= self.admission.max_tasks:
            self._hold()

    def _finish(self, command: RemotingCommand, task: asyncio.Future[RemotingCommand | None]) -> None:
        tasks = self._tasks or set()
        tasks.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is None:
                self._answer(command, task.result())
            elif isinstance(error, Exception):
                self._answer(command, self._answer_for(command, error))
        if len(tasks) == self.admission.max_tasks // 2:
            self._release()

    def answer_in_turn(self, command: RemotingCommand, work: Callable[[], RemotingCommand | None]) -> None:
        """Answers a request that was taken before with what `work` returns: at once, or when what waits for the peer has been sent.

        For answers that are large and made when something happens, such as pulls that were held: they are not made before there is room for them.
        """
        if self._is_writing_paused or self._turns or self._must_wait():
            if self._turns is None:
                self._turns = deque()
            self._turns.append((command, work))
            self._hold()
        else:
            self._answer_with(command, work)

    def _answer_with(self, command: RemotingCommand, work: Callable[[], RemotingCommand | None]) -> None:
        try:
            answer = work()
        except Exception as error:  # noqa: BLE001 - the outermost loop of a request
            answer = self._answer_for(command, error)
        self._answer(command, answer)

    def answer_failed(self, command: RemotingCommand, error: Exception) -> None:
        """Answers a request whose handling, which the handler has left to others, raised."""
        self._answer(command, self._answer_for(command, error))

    def _answer(self, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        if answer is not None and not command.is_oneway:
            try:
                self.send(answer)
            except Exception as error:  # noqa: BLE001 - whatever cannot be encoded
                self.send(self._answer_for(command, error))

    def _answer_for(self, command: RemotingCommand, error: Exception) -> RemotingCommand:
        if isinstance(error, (RemoteProtocolError, LocalProtocolError)):
            # The peer's mistake, such as a field that is missing: it is told, nobody else needs to be.
            logger.debug("request refused remote=%s code=%d reason=%s", self.remote, command.code, error)
        else:
            self._endpoint.handler_errors += 1
            self._endpoint.faults.failed(self.remote, command.code, error)
        answer = response_to(command, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}"[:REMARK_LIMIT])
        # compat: answers to requests whose handler threw are always JSON (remoting spec 1.5).
        answer.serialize_type = SerializeType.JSON
        return answer

    # -- bytes out --------------------------------------------------------------------------------------------------------

    def begin_batch(self) -> None:
        """From here on writes are gathered, until `end_batch`. Not nested."""
        self._is_batching = True

    def end_batch(self) -> None:
        """Writes all that was gathered, at once."""
        self._is_batching = False
        if self._batch:
            self._flush()

    def send(self, command: RemotingCommand) -> None:
        """Sends a command, answer or request. On a closed connection it is dropped. Raises LocalProtocolError if it cannot be encoded."""
        self.write(command.encode())

    def send_oneway(self, command: RemotingCommand) -> None:
        """Sends a request that wants no answer."""
        command.mark_oneway()
        self.write(command.encode())

    def write(self, data: bytes) -> None:
        """Sends bytes that are whole frames. On a closed connection they are dropped."""
        # order: nothing overtakes what waits for the end of the turn.
        if self._is_batching or self._batch:
            self._batch.append(data)
            self._batch_size += len(data)
            if self._batch_size >= BATCH_LIMIT:
                self._flush()
        else:
            self._put(data)

    def write_soon(self, head: bytes, body: bytes) -> None:
        """Sends the two parts of a frame, with all that is sent so in this turn of the loop, by one write."""
        batch = self._batch
        if not batch and not self._is_batching:
            self._endpoint.loop.call_soon(self._end_turn)
        batch.append(head)
        batch.append(body)
        self._batch_size += len(head) + len(body)
        if self._batch_size >= BATCH_LIMIT:
            self._flush()

    def _end_turn(self) -> None:
        if self._batch and not self._is_batching:
            self._flush()

    def _flush(self) -> None:
        data = self._batch[0] if len(self._batch) == 1 else b"".join(self._batch)
        self._batch.clear()
        self._batch_size = 0
        self._put(data)

    def _put(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or self._is_lost or transport.is_closing():
            return
        self._written_bytes += len(data)
        transport.write(data)
        if self._is_writing_paused:
            # What is sent in part is held as a whole.
            self._count(self._buffered_in, self._buffered_out + len(data))
        else:
            self._last_active = self._endpoint.loop.time()

    def _hold(self) -> None:
        if self._transport is not None and not self.is_closed and not self._endpoint.always_reads:
            self._transport.pause_reading()

    def _release(self) -> None:
        """Goes on with what had to wait: answers first, then requests, then reading."""
        while self._turns and not (self._is_writing_paused or self.is_closed or self._must_wait()):
            self._answer_with(*self._turns.popleft())
        if not (self.is_closed or self._is_draining or self._is_stopped):
            self._take_rest()
        if not (self.is_closed or self._is_draining or self._is_stopped) and self._transport is not None:
            self._transport.resume_reading()

    def look(self, now: float, seconds: float, stall_grace_s: float) -> None:
        """Notes what has moved in the `seconds` since the last look; closes the connection if its peer has not read for `stall_grace_s` although more waits than should."""
        transport = self._transport
        if transport is None or self._is_lost:
            return
        unsent = transport.get_write_buffer_size()
        moved = self._read_bytes + self._written_bytes - unsent
        has_moved, self._seen_moved = moved - self._seen_moved, moved
        if has_moved >= LEAST_RATE * seconds:
            self.moved_at = time.monotonic()
        self._count(self._buffered_in, min(self._buffered_out, unsent + FRAME_MAX_LENGTH) if unsent else 0)
        if not self._is_writing_paused or has_moved:
            self._stalled_since = None
        elif self._stalled_since is None:
            self._stalled_since = now
        elif now - self._stalled_since >= stall_grace_s:
            self.abort(f"it does not read: {unsent} bytes wait for it, and none was read for {stall_grace_s:g} s")

    # -- questions of our own ---------------------------------------------------------------------------------------------

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Sends a request and waits for its answer, whatever its code.

        Raises RequestTimeout (also when the peer does not read for so long), SendRequestError if the connection breaks or is closed already,
        TooManyRequests, LocalProtocolError.
        """
        end = self._endpoint.loop.time() + timeout_ms / 1000
        if self._is_writing_paused:
            await self._wait_writable(end, timeout_ms)
        if self.is_closed:
            raise SendRequestError(f"the connection to {self.remote} is closed", self.remote)
        if self._pending is None:
            self._pending = {}
        if len(self._pending) >= MAX_PENDING:
            raise TooManyRequests(f"{MAX_PENDING} requests to {self.remote} wait for their answer", self.remote)
        opaque = command.opaque
        if opaque in self._pending:
            raise LocalProtocolError(f"a request with opaque {opaque} waits for its answer already")
        loop, deadlines = self._endpoint.loop, self._endpoint.deadlines
        future: asyncio.Future[RemotingCommand] = loop.create_future()
        self._pending[opaque] = future
        bucket = deadlines.add(future, end - loop.time(), lambda: self._timeout(command.code, timeout_ms))
        try:
            self.send(command)
            return await future
        finally:
            self._pending.pop(opaque, None)
            deadlines.remove(future, bucket)

    async def _wait_writable(self, end: float, timeout_ms: int) -> None:
        while self._is_writing_paused and not self.is_closed:
            if self._writable is None:
                self._writable = self._endpoint.loop.create_future()
            remaining = end - self._endpoint.loop.time()
            done, _ = await asyncio.wait([self._writable], timeout=max(remaining, 0))
            if not done:
                message = f"{self.remote} did not read within {timeout_ms} ms"
                raise RequestTimeout(message, self.remote, timeout_ms / 1000)

    def _timeout(self, code: int, timeout_ms: int) -> RequestTimeout:
        message = f"{self.remote} did not answer request {int(code)} within {timeout_ms} ms"
        return RequestTimeout(message, self.remote, timeout_ms / 1000)

    def silent_since(self, moment: float) -> bool:
        """Whether nothing at all was read since `moment` (the loop's time, seconds)."""
        return self._last_read <= moment

    # -- the end ----------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Reads no more; what is being handled may still be answered."""
        self._is_draining = True
        self._hold()

    def close(self, reason: str, level: int = logging.INFO) -> None:
        """Closes once all that was written is sent. Says why, once."""
        transport = self._transport
        if transport is None or self.is_closed:
            return
        if self._batch:
            self._flush()
        self._say(reason, level)
        transport.close()

    def abort(self, reason: str, level: int = logging.WARNING) -> None:
        """Closes at once; what was not yet sent is lost."""
        if self._transport is not None and not self._is_lost:
            self._say(reason, level)
            self._transport.abort()
            self._give_back()

    async def wait_closed(self) -> None:
        """Waits until the connection is gone, with all that was sent before `close` sent."""
        if self._transport is not None and not self._is_lost:
            if self._closed is None:
                self._closed = self._endpoint.loop.create_future()
            await asyncio.shield(self._closed)

    def _say(self, reason: str, level: int) -> None:
        if self._close_reason is None:
            self._close_reason = reason
            if level > logging.DEBUG:
                self._endpoint.faults.closed(self.remote, reason, level)
