# cython: wraparound=False

"""Channel: the byte stream of one connection, incoming or outgoing. It owns the handler of its frames.

    socket ──► data_received ──► whole frames ──► FrameHandler.take ──┐
       ▲                                                              │
       └── one write for each batch ◄── write, write_soon ◄───────────┘

- All frames of one read are handled in one batch, and their answers are sent with one write: to the socket itself while the event loop's transport
  has nothing to send, otherwise to the transport (`socket_calls`).
- An incoming connection takes no more frames while too many bytes wait for its peer (HIGH_WATER), while its handler is busy, while the role's
  memory for connections is used up (`buffer_budget`), or while its client has used its share of the loop's time (`turns`). Bytes already
  read are kept, and nothing more is read. While other connections of its client wait for their turn, its socket is not even read before its own.
  The peer may be slow, but must not stop reading: see `peer_watch`.
- An outgoing connection always reads: otherwise two peers could wait for each other to read, forever.
- Bytes that are not frames close the connection.
- A TLS hello is recognized by its first byte. From then on a `TlsLayer` is between the channel and the socket's transport; everything else here
  works on plain bytes. Plain-text connections do not pass through it.
- Invalid input from a peer and errors in handlers close at most this connection: nothing is raised into the event loop.
  Faults are logged through `fault_log`.

This file never blocks, starts no threads, and does not depend on requests. Called for every read, so this is a hot module (types in the `.pxd`); the
SDK's wheel contains only the Python form.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from time import monotonic, monotonic_ns
from typing import Any, Final, cast

from headrace.errors import BadFrame, FrameTooLarge
from headrace.model.connection_limits import MAX_HANDSHAKES, MAX_NEW_HANDSHAKES
from headrace.protocol.frame import FRAME_MAX_LENGTH, frame_size, too_large_frame
from headrace.remoting import socket_calls
from headrace.remoting.buffer_budget import LEAST_RATE
from headrace.remoting.client_usage import NOBODY, ClientUsage, name_of_account
from headrace.remoting.endpoint import Endpoint
from headrace.remoting.frame_handler import FrameHandler
from headrace.remoting.partial_frame import LENGTH_UNKNOWN, PartialFrame
from headrace.remoting.tls_layer import TLS_HANDSHAKE, TlsLayer
from headrace.remoting.turns import Turns

logger = logging.getLogger(__name__)

HIGH_WATER: Final = 64 << 10
# limit: unsent bytes for an accepted peer above which no more of its requests are taken
CLIENT_HIGH_WATER: Final = 1 << 20  # limit: the same for our own requests; above it `wait_writable` waits
RECOUNT_S: Final = 0.01
"""When it is looked whether large data that was not sent at once has been sent: most of it within this time."""
BATCH_LIMIT: Final = 1 << 20  # limit: size at which a batch is written
# What a socket has that is left unread until its client's turn.
_NOTHING: Final = 0
_UNREAD: Final = 1
_UNREAD_END: Final = 2
"""The stream ends behind it."""
_TCP_CONGESTION: Final[int | None] = getattr(socket, "TCP_CONGESTION", None)
"""Linux has it."""


class Channel:
    """The byte stream of a connection: the `asyncio.Protocol` of its transport. `opened_at_ms` is wall-clock time; `remote` is the peer's `host:port`."""

    __slots__ = (
        "__weakref__",
        "_always_reads",
        "_batch",
        "_batch_size",
        "_begin",
        "_buffered_in",
        "_buffered_out",
        "_carried_out",
        "_closed",
        "_end",
        "_endpoint",
        "_fd",
        "_has_room",
        "_in_progress",
        "_is_batching",
        "_is_draining",
        "_is_handshaking",
        "_is_in_turn",
        "_is_lost",
        "_is_new",
        "_is_read_directly",
        "_is_transport_sending",
        "_is_waiting_for_room",
        "_is_waiting_for_turn",
        "_last_active",
        "_last_read",
        "_loop",
        "_partial",
        "_read_bytes",
        "_reader",
        "_rest",
        "_seen_moved",
        "_stalled_since",
        "_take",
        "_tls_bytes",
        "_transport",
        "_turns",
        "_unread",
        "_usage_of_address",
        "_writable",
        "_written_bytes",
        "close_reason",
        "handler",
        "held_bytes",
        "is_writing_paused",
        "moved_at",
        "opened_at_ms",
        "peer_certificate",
        "remote",
        "remote_address",
        "usage",
    )

    def __init__(
        self,
        endpoint: Endpoint,
        make_handler: "Callable[[Channel], FrameHandler]",
        usage: ClientUsage = NOBODY,
    ) -> None:
        self._endpoint = endpoint
        # Of the endpoint, for every read.
        self._loop, self._turns, self._always_reads = endpoint.loop, endpoint.turns, endpoint.always_reads
        self._transport: asyncio.Transport | None = None
        # Of the socket of an incoming connection without TLS, as long as it may be read and written to past the transport; otherwise -1.
        self._fd = -1
        self._reader = endpoint.reader
        self._is_read_directly = False  # by the reader, unless it is paused
        self._is_transport_sending = False
        self._is_new = True
        self._partial: PartialFrame | None = None
        self._rest = b""
        self._is_waiting_for_room = self._has_room = False
        self._is_waiting_for_turn = self._is_in_turn = self._is_handshaking = False
        self._unread = _NOTHING
        self._buffered_in = self._buffered_out = self._carried_out = self._in_progress = self._tls_bytes = (
            self.held_bytes
        ) = 0
        self._read_bytes = self._written_bytes = self._seen_moved = 0
        self.moved_at = monotonic()
        self._stalled_since: float | None = None
        self._batch: list[bytes] = []
        self._batch_size = 0
        self._is_batching = False
        self.is_writing_paused = False
        """Whether more bytes wait for the peer than the high-water mark."""
        self._is_lost = False
        self._is_draining = False
        self.close_reason: str | None = None
        """Why it was closed from this side; None if it was not. Frames read before are dropped then."""
        self._last_active = monotonic()
        self._last_read = 0.0
        self._writable: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] | None = None
        self.opened_at_ms = 0
        self.remote_address: tuple[str, int] = ("", 0)
        self.remote = ""
        self.peer_certificate: str | None = None
        """The subject of the client's certificate, `CN=app,O=Example`, if it presented one that was verified; known before its first frame."""
        self._usage_of_address = self.usage = usage
        """The usage of its client: its account if it has one, otherwise its address."""
        self.handler: Any = make_handler(self)  # a FrameHandler; its users know which
        self._begin, self._take, self._end = self.handler.begin_batch, self.handler.take, self.handler.end_batch

    # -- state ------------------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_lost or self._transport is None or self._transport.is_closing()

    @property
    def is_held(self) -> bool:
        """Whether it waits for the peer to read, or for memory."""
        return self.is_writing_paused or self._is_waiting_for_room

    @property
    def is_encrypted(self) -> bool:
        """Whether the peer of an incoming connection uses TLS."""
        return isinstance(self._transport, TlsLayer)

    def takes_frames(self) -> bool:
        """Whether more frames may be handled now."""
        return self._always_reads or not (
            self.is_writing_paused or self._is_waiting_for_room or self._is_waiting_for_turn or self.handler.is_busy
        )

    @property
    def local_address(self) -> str:
        """The address of this host that the peer is connected to; empty if the connection is lost."""
        name = None if self._transport is None else self._transport.get_extra_info("sockname")
        return str(name[0]) if name else ""

    @property
    def idle_s(self) -> float:
        """Seconds since bytes were read, or written to a peer that reads."""
        return monotonic() - self._last_active

    @property
    def last_active_ms(self) -> int:
        """When bytes were last read or written, in wall-clock milliseconds."""
        return int((time.time() - self.idle_s) * 1000)

    def silent_since(self, moment: float) -> bool:
        """Whether nothing was read since `moment` (the loop's time, seconds)."""
        return self._last_read <= moment

    # -- asyncio calls these ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sets the socket's options and opens the handler."""
        self._transport = cast(asyncio.Transport, transport)
        self.opened_at_ms = int(time.time() * 1000)
        self._endpoint.channels.add(self)
        try:
            self._open(self._transport)
        except Exception as error:  # noqa: BLE001 - the event loop would log a stack trace
            self._fail(error)

    def _open(self, transport: asyncio.Transport) -> None:
        endpoint = self._endpoint
        peer = transport.get_extra_info("peername")
        if not peer:
            # The peer reset the connection before we accepted it.
            self.abort("reset by the peer before it was accepted", logging.DEBUG)
            return
        transport.set_write_buffer_limits(high=CLIENT_HIGH_WATER if self._always_reads else HIGH_WATER)
        self.remote_address = (peer[0], peer[1])
        self.remote = f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}"
        connected = transport.get_extra_info("socket")
        if connected is not None:
            if not self._always_reads:
                self._fd = connected.fileno()
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if _TCP_CONGESTION is not None and connected.getsockname()[0] == peer[0]:
                    # Within a machine nothing is congested, but BBR, the default of some, waits by a timer between the parts of a large write:
                    # pulls of 1 MiB were 1.5 times as slow. Reno does not, and every process may use it.
                    connected.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, b"reno")
            except OSError:
                pass  # the peer is gone already; connection_lost follows
        if self.usage is NOBODY:
            self._usage_of_address = self.usage = endpoint.usages.join_address(peer[0])
        self.handler.opened()

    def data_received(self, data: bytes) -> None:
        """Handles all complete frames in the bytes; sends the answers with one write."""
        if self._is_lost or self.close_reason is not None:
            return
        if self._is_new:
            self._is_new = False
            if not self._always_reads and self._begins_tls(data):
                return
            self._read_directly()
        self._last_active = self._last_read = monotonic()
        self._read_bytes += len(data)
        turns = self._turns
        try:
            if turns is None or self._is_in_turn:
                self._receive(data)
            elif self._is_waiting_for_turn:
                self._keep(self._rest + data, 0)
            elif turns.begin(self.usage):
                self._receive(data)
                turns.end(self.usage)
            else:
                self._keep_for_turn(turns, data)
        except BadFrame as error:
            self.refuse_bytes(error)
        except Exception as error:  # noqa: BLE001 - the event loop would log a stack trace
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Releases what it holds, and passes the reason to the handler."""
        self._is_lost = True
        self._leave_socket()
        self._end_handshake()
        reason = self.close_reason or (f"connection lost: {exc}" if exc else "closed by the peer")
        if self.close_reason is None:
            logger.debug("connection closed remote=%s reason=%r", self.remote, reason)
        self._endpoint.channels.discard(self)
        # Requests in progress are counted in `usage` until they have ended.
        if self.usage is not self._usage_of_address:
            self._endpoint.usages.leave(self.usage)
        self._endpoint.usages.leave_address(self._usage_of_address)
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        self._batch.clear()
        self._give_back()
        try:
            self.handler.lost(reason)
        except Exception as error:  # noqa: BLE001 - the event loop would log a stack trace
            self._fail(error)

    def eof_received(self) -> None:
        """The peer sends no more: the transport closes the connection."""
        self._leave_socket()

    def read_ended(self, error: OSError | None) -> None:
        """The reader has met the end of the stream, or an error: closes the connection, as a transport does."""
        if error is not None:
            self.abort(f"connection lost: {error}", logging.DEBUG)
        elif self._transport is not None:
            self.eof_received()
            self._transport.close()

    def pause_writing(self) -> None:
        """The high-water mark is exceeded."""
        self.is_writing_paused = True
        self.pause()

    def resume_writing(self) -> None:
        """The peer has read nearly all bytes that waited."""
        self.is_writing_paused = False
        self._stalled_since = None
        transport = self._transport
        held = 0
        if transport is not None and self._buffered_out > HIGH_WATER and transport.get_write_buffer_size():
            # Some bytes still wait, and hold what was written last; what was counted at the last such call has been sent.
            held = max(self._buffered_out - self._carried_out, 0)
            self._loop.call_later(RECOUNT_S, self._recount)
        self._carried_out = held
        self._count(self._buffered_in, held)
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None
        # order: not from within the transport's own write, which calls this: the answers to the next frames would overtake it.
        self._loop.call_soon(self.resume)

    # -- bytes in ---------------------------------------------------------------------------------------------------------

    def _read_directly(self) -> None:
        """The reader takes over from the transport, if there is one."""
        if self._fd >= 0 and self._reader is not None and self._transport is not None:
            self._is_read_directly = self._reader.watch(self._fd, self)
            if self._is_read_directly:
                self._transport.pause_reading()

    def _leave_socket(self) -> None:
        """From now on only the transport uses the socket."""
        if self._is_read_directly:
            self._is_read_directly = False
            self._reader.unwatch(self._fd, self)
        self._fd = -1

    def _begins_tls(self, data: bytes) -> bool:
        """Whether the first bytes are not plain text to be served: TLS is started, or the connection closed. `data`: all bytes read so far.

        # compat: TLS and plain text share a port. The first byte tells them apart: a frame's is always 0, because its length is below 2^24.
        """
        tls = self._endpoint.tls
        if data[0] != TLS_HANDSHAKE:
            if tls is None or not tls.is_required:
                return False
            self.close("TLS is required on this port; connect with tls.enable=true", logging.WARNING)
        elif tls is None or tls.is_disabled:
            self.close("TLS is disabled on this port; connect without tls.enable", logging.WARNING)
        elif self._transport is not None and self._may_begin_handshake():
            usage = self._usage_of_address
            self._is_handshaking = True
            self._leave_socket()
            usage.handshakes += 1
            self._transport = tls.accept(self._loop, self._transport, self, data, self._turns, usage)
        return True

    def _may_begin_handshake(self) -> bool:
        """Whether the limits allow its address another TLS handshake. If not, the connection is closed."""
        endpoint, usage = self._endpoint, self._usage_of_address
        limits = endpoint.limits
        if limits.handshakes and usage.handshakes >= limits.handshakes:
            limit, reason = MAX_HANDSHAKES, f"{usage.handshakes} TLS handshakes of {usage.name} are in progress"
        elif not endpoint.new_handshakes.allows(usage.name):
            limit = MAX_NEW_HANDSHAKES
            reason = f"{usage.name} has begun {limits.handshakes_per_minute} TLS handshakes in this minute"
        else:
            return True
        endpoint.faults.limit_reached(limit, self.remote, f"connection closed: {reason}")
        self.abort(f"{limit}: {reason}", logging.DEBUG)
        return False

    def _end_handshake(self) -> None:
        if self._is_handshaking:
            self._is_handshaking = False
            self._usage_of_address.handshakes -= 1

    def tls_established(self, subject: str | None) -> None:
        """The handshake is complete; `subject` is that of the client's verified certificate."""
        self.peer_certificate = subject
        self._end_handshake()

    def tls_buffered(self, size: int) -> None:
        """OpenSSL's buffers have grown to `size` bytes."""
        if not self._is_lost:
            self._tls_bytes = size
            self._count(self._buffered_in, self._buffered_out)

    def tls_failed(self, reason: str) -> None:
        """The handshake or a later record failed. Logs the reason, once."""
        if self._transport is not None and self.close_reason is None:
            self._endpoint.tls_failures += 1
            self._close_because(f"TLS failed: {reason}", logging.WARNING)
            self._transport.close()

    def refuse_bytes(self, error: BadFrame) -> None:
        """Closes the connection because of bytes that are not frames. Logs the reason, once."""
        self._endpoint.bad_frames += 1
        if isinstance(error, FrameTooLarge):
            self._endpoint.faults.limit_reached(error.limit, self.remote, f"connection closed: {error}")
            self.close(f"{error.limit}: {error}", logging.DEBUG)
            return
        self.close(f"not a RocketMQ frame: {error}", logging.WARNING)

    def _fail(self, error: Exception) -> None:
        """Closes the connection after an unexpected error while its bytes were handled."""
        self._endpoint.handler_errors += 1
        self._endpoint.faults.failed(self.remote, -1, error)
        self.abort(f"internal error while handling received data: {type(error).__name__}", logging.DEBUG)

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
        self._is_batching = True
        if self._begin is not None:
            self._begin()
        try:
            if partial is not None:
                self._partial = None
                frame = partial.take()
                if not self._take(frame, 0):
                    # Its length is known only now, or it must wait.
                    data, position = frame + data[position:], 0
            position = self._take(data, position)
        finally:
            self._end_batch()
        if position < len(data) or self.held_bytes != self._tls_bytes:
            self._keep(data, position)

    def _keep(self, data: bytes, position: int) -> None:
        """Keeps the bytes that were not handled: waiting frames, or the beginning of one."""
        size = len(data) - position
        if not size or self.is_closed:
            self._count(0, self._buffered_out)
            return
        if self.takes_frames():
            needed = frame_size(data, position) if size >= LENGTH_UNKNOWN else LENGTH_UNKNOWN
            budget = self._endpoint.budget
            if needed > size:
                limit = self._endpoint.limits.frame_size
                # The limit cannot be smaller than one read, so complete frames within one read need no check.
                if needed > limit and not self._always_reads:
                    raise too_large_frame(needed, limit)
                if budget.fits(needed - self._buffered_in, has_waited=self._has_room):
                    self._partial = PartialFrame(data[position:], needed)
                    self._count(needed, self._buffered_out)
                    return
                self._wait_for_room(needed)
        self._rest = data[position:]
        self._count(size, self._buffered_out)

    def _take_rest(self) -> None:
        """Handles the bytes that were kept."""
        data, self._rest = self._rest, b""
        if not data:
            return
        try:
            self._is_batching = True
            if self._begin is not None:
                self._begin()
            try:
                position = self._take(data, 0)
            finally:
                self._end_batch()
            self._keep(data, position)
        except BadFrame as error:
            self.refuse_bytes(error)
        except Exception as error:  # noqa: BLE001 - the event loop would log a stack trace
            self._fail(error)

    # -- memory -----------------------------------------------------------------------------------------------------------

    def must_wait(self) -> bool:
        """Whether the next frame or answer must wait for memory. If so, `resume` is called later."""
        if not self._endpoint.budget.is_tight:
            return False
        if not self._is_waiting_for_room:
            self._wait_for_room(0)
        return True

    def frame_must_wait(self) -> bool:
        """Whether the next frame must wait for memory or for its client's turn. If so, `resume` is called later."""
        turns = self._turns
        if turns is not None and monotonic_ns() >= turns.ends_ns:
            if not self._is_waiting_for_turn:
                self._wait_for_turn(turns)
            return True
        budget = self._endpoint.budget
        return budget.used > budget.tight_limit and self.must_wait()

    def reads_later(self, has_ended: bool) -> bool:
        """Whether its socket, which has bytes, is left unread until its client's turn. `has_ended`: nothing comes after them.

        The beginning of a frame is not left alone: it holds memory.
        """
        turns = self._turns
        if not self._is_waiting_for_turn:
            if turns is None or self._partial is not None or not self.usage.waiting:
                return False
            self._is_waiting_for_turn = True
            turns.wait(self.usage, self)
        self._last_active = self._last_read = monotonic()
        if self._unread != _UNREAD_END:
            self._unread = _UNREAD_END if has_ended else _UNREAD
        return True

    def _wait_for_turn(self, turns: Turns) -> None:
        self._is_waiting_for_turn = True
        if not self._is_read_directly:
            self.pause()
        turns.wait(self.usage, self)

    def _keep_for_turn(self, turns: Turns, data: bytes) -> None:
        """Keeps the bytes until it is its client's turn. A frame that they do not complete needs none: they are only added to it."""
        partial = self._partial
        if partial is not None:
            position = partial.fill(data)
            if not partial.is_whole:
                return
            self._partial = None
            data = partial.take() + data[position:]
        self._wait_for_turn(turns)
        self._keep(self._rest + data, 0)

    def take_turn(self) -> None:
        """It is its client's turn."""
        self._is_waiting_for_turn = False
        self.resume()
        # order: not once the transport is closing, because its descriptor may be another connection's by now.
        if (
            self._unread
            and self._is_read_directly
            and not (self.is_closed or self._is_draining)
            and self.takes_frames()
        ):
            has_ended, self._unread = self._unread == _UNREAD_END, _NOTHING
            self._is_in_turn = True
            self._reader.read(self._fd, self, has_ended)
            self._is_in_turn = False

    def count_for(self, account: str | None) -> None:
        """Counts its usage for the account from now on; None: for its address."""
        usages, before = self._endpoint.usages, self.usage
        self.usage = self._usage_of_address if account is None else usages.join(name_of_account(account))
        if before is not self._usage_of_address:
            usages.leave(before)

    def _wait_for_room(self, size: int) -> None:
        self._is_waiting_for_room = True
        self.pause()
        self._endpoint.budget.wait(self, size)

    def room_found(self) -> None:
        """The budget has room for the bytes that it waits for."""
        self._is_waiting_for_room = False
        self._has_room = True
        self.resume()
        self._has_room = False

    def _count(self, buffered_in: int, buffered_out: int) -> None:
        """Reports to the budget how many bytes are held: read, unsent, those of requests in progress, and TLS buffers."""
        self._buffered_in, self._buffered_out = buffered_in, buffered_out
        held = buffered_in + buffered_out + self._in_progress + self._tls_bytes
        if held != self.held_bytes:
            change, self.held_bytes = held - self.held_bytes, held
            self._endpoint.budget.hold(change)

    def hold_request(self, size: int) -> None:
        """Counts `size` bytes of a request in progress; called again with the negative size when it has ended."""
        self._in_progress = max(self._in_progress + size, 0)  # 0 again once everything was released
        self._count(self._buffered_in, self._buffered_out)

    def _give_back(self) -> None:
        self._partial = None
        self._in_progress = self._tls_bytes = 0
        self._rest = b""
        self._count(0, 0)

    # -- bytes out --------------------------------------------------------------------------------------------------------

    def _end_batch(self) -> None:
        """Writes everything collected since the read began."""
        # order: if the handler fails here nothing is written, because incomplete work must not be acknowledged.
        if self._end is not None:
            self._end()
        self._is_batching = False
        if self._batch:
            self._flush()

    def write(self, data: bytes) -> None:
        """Sends complete frames. On a closed connection they are dropped."""
        # order: nothing overtakes bytes that wait for the end of the turn.
        if self._is_batching or self._batch:
            self._batch.append(data)
            self._batch_size += len(data)
            if self._batch_size >= BATCH_LIMIT:
                self._flush()
        else:
            self._put(data)

    def write_soon(self, head: bytes, body: bytes, *, alone: bool = False) -> None:
        """Sends the two parts of a frame. All frames sent this way in one turn of the loop leave with one write.

        `alone`: no other frame is expected in this turn, so it is written at once unless others wait already.
        """
        batch = self._batch
        if not batch and not self._is_batching:
            if alone:
                self._put(head + body)
                return
            self._loop.call_soon(self._end_turn)
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
        if self._fd >= 0 and transport is not None:
            if self._is_transport_sending:
                self._is_transport_sending = transport.get_write_buffer_size() > 0
            if not self._is_transport_sending:
                sent = socket_calls.try_send(self._fd, data)
                if sent:
                    self._written_bytes += sent
                    self._last_active = monotonic()
                    if sent == len(data):
                        return
                    data = data[sent:]
                self._is_transport_sending = True
        if transport is None or self._is_lost or transport.is_closing():
            return
        self._written_bytes += len(data)
        transport.write(data)
        if self.is_writing_paused:
            # Partly sent data is held as a whole.
            self._count(self._buffered_in, self._buffered_out + len(data))
            return
        self._last_active = monotonic()
        if len(data) > HIGH_WATER:
            unsent = transport.get_write_buffer_size()
            if unsent:
                # Also if the rest is below the high-water mark: the kernel may have taken nearly all of it.
                self._count(self._buffered_in, len(data) if unsent <= len(data) else self._buffered_out + len(data))
                self._loop.call_later(RECOUNT_S, self._recount)

    def _recount(self) -> None:
        """Written data is no longer held if all of it was sent; otherwise `look` counts again."""
        transport = self._transport
        if transport is None or self._is_lost or self.is_writing_paused or transport.get_write_buffer_size():
            return
        self._count(self._buffered_in, 0)

    async def wait_writable(self, end: float) -> bool:
        """Waits until the peer has read enough or the connection is closed; returns False at `end` (the loop's time)."""
        while self.is_writing_paused and not self.is_closed:
            if self._writable is None:
                self._writable = self._loop.create_future()
            done, _ = await asyncio.wait([self._writable], timeout=max(end - self._loop.time(), 0))
            if not done:
                return False
        return True

    # -- back-pressure ----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stops reading until `resume`, unless it always reads."""
        if self._transport is not None and not self.is_closed and not self._always_reads:
            if self._is_read_directly:
                self._reader.unwatch(self._fd, self)
            else:
                self._transport.pause_reading()

    def resume(self) -> None:
        """Continues: first the handler's answers, then kept frames, then reading. Has no effect while there is still a reason to wait."""
        self.handler.resumed()
        if not self.is_closed and not self._is_draining and self.takes_frames():
            self._take_rest()
        if not self.is_closed and not self._is_draining and self.takes_frames() and self._transport is not None:
            if self._is_read_directly and self._reader.watch(self._fd, self):
                return
            self._is_read_directly = False
            self._transport.resume_reading()

    def look(self, now: float, seconds: float, stall_grace_s: float) -> None:
        """Records the bytes transferred in the last `seconds`; closes the connection if its peer has read nothing for `stall_grace_s` above the high-water mark."""
        transport = self._transport
        if transport is None or self._is_lost:
            return
        unsent = transport.get_write_buffer_size()
        moved = self._read_bytes + self._written_bytes - unsent
        has_moved, self._seen_moved = moved - self._seen_moved, moved
        if has_moved >= LEAST_RATE * seconds:
            self.moved_at = monotonic()
        self._count(self._buffered_in, min(self._buffered_out, unsent + FRAME_MAX_LENGTH) if unsent else 0)
        if not self.is_writing_paused or has_moved:
            self._stalled_since = None
        elif self._stalled_since is None:
            self._stalled_since = now
        elif now - self._stalled_since >= stall_grace_s:
            self.abort(f"peer not reading: {unsent} bytes unsent, no progress for {stall_grace_s:g} s")

    # -- the end ----------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Stops reading for good; requests in progress are still answered."""
        self._is_draining = True
        self.pause()

    def close(self, reason: str, level: int = logging.INFO) -> None:
        """Closes once all written bytes are sent. Logs the reason, once."""
        transport = self._transport
        if transport is None or self.is_closed:
            return
        if self._batch:
            self._flush()
        self._close_because(reason, level)
        transport.close()

    def abort(self, reason: str, level: int = logging.WARNING) -> None:
        """Closes at once; unsent bytes are lost."""
        if self._transport is not None and not self._is_lost:
            self._close_because(reason, level)
            self._transport.abort()
            self._give_back()

    async def wait_closed(self) -> None:
        """Waits until the connection has ended; bytes written before `close` are sent."""
        if self._transport is not None and not self._is_lost:
            if self._closed is None:
                self._closed = self._loop.create_future()
            await asyncio.shield(self._closed)

    def _close_because(self, reason: str, level: int) -> None:
        if self.close_reason is None:
            self.close_reason = reason
            self._leave_socket()
            if level > logging.DEBUG:
                self._endpoint.faults.closed(self.remote, reason, level)
