"""TlsLayer: TLS between a socket's transport and the protocol above, which handles plain bytes only.

    transport ──► data_received ──► SSLObject ──► protocol.data_received
        ▲                                                   │
        └── one write of ciphertext ◄── SSLObject ◄── write ◄┘

It is inserted between transport and protocol if the first byte of a connection is that of a TLS hello; plain-text connections do not pass through
it. It buffers at most one incomplete TLS record: bytes read are passed on at once, and bytes written go to the transport, whose flow control applies.

A handshake takes up to a millisecond of the event loop, so it needs a turn of its client (`turns`): a thousand hellos at once do not delay others.
"""

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Final, Protocol, final

from headrace.remoting.client_usage import NOBODY, ClientUsage
from headrace.remoting.turns import Turns

HANDSHAKE_TIMEOUT_S: Final = 10.0  # limit: Netty's
TLS_HANDSHAKE: Final = 0x16
"""First byte of a TLS connection."""

_RECORD: Final = 16 << 10
_FEED: Final = 32 << 10  # limit: a MemoryBIO never releases memory, so large pieces are not written to it
_SHORT_NAMES: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "stateOrProvinceName": "ST",
    "localityName": "L",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}  # RFC 4514
_ESCAPED: Final = frozenset('"+,;<>\\=')


class TlsUser(Protocol):
    """The protocol above: an asyncio.Protocol that is also notified of the handshake's result."""

    def data_received(self, data: bytes) -> None:
        """As asyncio's."""

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio's."""

    def pause_writing(self) -> None:
        """As asyncio's."""

    def resume_writing(self) -> None:
        """As asyncio's."""

    def tls_established(self, subject: str | None) -> None:
        """The handshake is complete. `subject`: of the client's verified certificate, None without one."""

    def tls_buffered(self, size: int) -> None:
        """OpenSSL's buffers of this connection have grown to `size` bytes. They never shrink."""

    def tls_failed(self, reason: str) -> None:
        """The handshake or a later record failed, or the context could not be created. Must close the connection."""


@final
class TlsLayer(asyncio.Transport, asyncio.Protocol):
    """The server side of one TLS connection. Created after the first bytes were read; they are passed to `begin`."""

    __slots__ = (
        "_deadline",
        "_has_failed",
        "_incoming",
        "_is_established",
        "_is_waiting",
        "_kept",
        "_largest_in",
        "_largest_out",
        "_outgoing",
        "_tls",
        "_transport",
        "_turns",
        "_usage",
        "_user",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        user: TlsUser,
        turns: Turns | None = None,
        usage: ClientUsage = NOBODY,
    ) -> None:
        super().__init__()
        self._transport = transport
        self._user = user
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._is_established = self._has_failed = self._is_waiting = False
        self._turns, self._usage = turns, usage
        self._largest_in = self._largest_out = 0  # the pieces that have passed each buffer
        self._kept = b""  # bytes that wait for the certificate or for a turn
        self._deadline = loop.call_later(HANDSHAKE_TIMEOUT_S, self._expire)
        transport.set_protocol(self)

    def begin(self, context: "ssl.SSLContext | asyncio.Future[ssl.SSLContext]", data: bytes) -> None:
        """Starts the handshake with the bytes read so far, once the context is available."""
        self._kept = data
        if isinstance(context, ssl.SSLContext):
            self._start(context)
        else:
            self._transport.pause_reading()
            context.add_done_callback(self._take_context)

    def _take_context(self, done: "asyncio.Future[ssl.SSLContext]") -> None:
        error = None if done.cancelled() else done.exception()
        if self._has_failed or self._transport.is_closing():
            return
        if done.cancelled() or error is not None:
            self._fail(f"no certificate: {error or 'the server is stopping'}")
            return
        self._transport.resume_reading()
        self._start(done.result())

    def _start(self, context: ssl.SSLContext) -> None:
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.data_received(b"")

    # -- asyncio calls these ----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Decrypts the data and passes it on."""
        if self._has_failed:
            return
        if self._is_established and self._tls is not None:
            self._deliver(*self._decrypt_all(self._tls, data))
            return
        self._kept += data
        if self._tls is not None and not self._is_waiting:
            self._shake_hands(self._tls)

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        """Continues the handshake with the bytes read, or waits for a turn."""
        turns = self._turns
        if turns is None:
            self.take_turn()
        elif turns.begin(self._usage):
            data, self._kept = self._kept, b""
            try:
                decrypted = self._decrypt_all(tls, data)
            finally:
                turns.end(self._usage)
            # order: after the end of this turn, because handling the data needs a turn of its own.
            self._deliver(*decrypted)
        else:
            self._is_waiting = True
            self._transport.pause_reading()
            turns.wait(self._usage, self)

    def take_turn(self) -> None:
        """The client's turn: continues the handshake."""
        if self._is_waiting:
            self._is_waiting = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        if self._tls is not None and not self._has_failed and not self._transport.is_closing():
            data, self._kept = self._kept, b""
            self._deliver(*self._decrypt_all(self._tls, data))

    def _decrypt_all(self, tls: ssl.SSLObject, data: bytes) -> tuple[list[bytes], bool]:
        """Returns the plain bytes in `data`, and whether the peer may send more. Answers handshakes. Closes the connection if decryption fails."""
        pieces: list[bytes] = []
        try:
            is_open = all(self._decrypt(tls, piece, pieces) for piece in _cut(data))
        except ssl.SSLError as error:
            self._flush()  # sends the alert with the reason
            self._fail(_reason(error))
            return [], True
        self._flush()
        return pieces, is_open

    def _deliver(self, pieces: list[bytes], is_open: bool) -> None:
        if pieces:
            self._user.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if not is_open:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is lost."""
        self._deadline.cancel()
        if not self._is_established and not self._has_failed:
            self._fail(f"the peer closed the connection{f' ({exc})' if exc else ''}")
        self._user.connection_lost(exc)

    def pause_writing(self) -> None:
        """The high-water mark of ciphertext is exceeded."""
        self._user.pause_writing()

    def resume_writing(self) -> None:
        """The peer has read nearly all bytes that waited."""
        self._user.resume_writing()

    # -- the handshake ----------------------------------------------------------------------------------------------------

    def _decrypt(self, tls: ssl.SSLObject, data: "bytes | memoryview", pieces: list[bytes]) -> bool:
        """Adds the plain bytes in `data` to `pieces`; returns whether the peer may send more. Raises ssl.SSLError."""
        self._incoming.write(data)
        if len(data) > self._largest_in:
            self._largest_in = len(data)
            self._report_buffers()
        try:
            if not self._is_established:
                tls.do_handshake()
                self._establish(tls)
            # A read takes a whole record. If no bytes are left, another read would only raise, which costs more than a record.
            while self._incoming.pending:
                piece = tls.read(_RECORD)
                if not piece:
                    return False
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass  # the beginning of a record
        return True

    def _report_buffers(self) -> None:
        # OpenSSL allocates a third more than is needed.
        self._user.tls_buffered((self._largest_in + self._largest_out) * 4 // 3)

    def _establish(self, tls: ssl.SSLObject) -> None:
        self._is_established = True
        self._deadline.cancel()
        self._user.tls_established(subject_of(tls.getpeercert()))

    def _expire(self) -> None:
        self._fail(f"not completed within {HANDSHAKE_TIMEOUT_S:g} s")

    def _fail(self, reason: str) -> None:
        self._has_failed = True
        self._deadline.cancel()
        self._user.tls_failed(reason)

    # -- the protocol above calls these -----------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Encrypts and sends. Dropped before the handshake is complete and after a failure."""
        tls = self._tls
        if tls is None or not self._is_established or self._has_failed:
            return
        pieces: list[bytes] = []
        try:
            for piece in _cut(data, _RECORD):
                tls.write(piece)  # whole: it is one record, and a MemoryBIO takes everything
                sealed = self._outgoing.read()
                if len(sealed) > self._largest_out:
                    self._largest_out = len(sealed)
                    self._report_buffers()
                pieces.append(sealed)
        except ssl.SSLError as error:
            self._fail(_reason(error))
            return
        self._transport.writelines(pieces)

    def close(self) -> None:
        """Sends the peer the end of the stream, and closes once all written bytes are sent."""
        if self._tls is not None and self._is_established and not self._has_failed and not self._transport.is_closing():
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # does not wait for the peer's
            self._flush()
        self._deadline.cancel()
        self._transport.close()

    def abort(self) -> None:
        """Closes at once."""
        self._deadline.cancel()
        self._transport.abort()

    def is_closing(self) -> bool:
        """As the socket's transport."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """As the socket's transport."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """As the socket's transport."""
        self._transport.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As the socket's transport."""
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Ciphertext that the peer has not taken, in bytes."""
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the socket's transport."""
        return self._transport.get_extra_info(name, default)

    def _flush(self) -> None:
        """Sends the output of the handshake, an alert or a key update."""
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())


def _cut(data: bytes, size: int = _FEED) -> "Iterable[bytes | memoryview]":
    """Pieces of at most `size` bytes."""
    if len(data) <= size:
        return (data,)
    view = memoryview(data)
    return (view[start : start + size] for start in range(0, len(data), size))


def _reason(error: ssl.SSLError) -> str:
    words = (error.reason or str(error)).replace("_", " ").lower()
    detail = getattr(error, "verify_message", "")
    return f"{words} ({detail})" if detail else words


def subject_of(certificate: "dict[str, Any] | None") -> str | None:
    """Returns the subject of a certificate as `SSLObject.getpeercert` gives it, in RFC 4514's form: `CN=app,O=Example`.

    None without a certificate: `getpeercert` returns no subject if it was not verified.
    """
    if not certificate:
        return None
    parts = reversed(certificate.get("subject", ()))
    return ",".join(
        "+".join(f"{_SHORT_NAMES.get(name, name)}={_escape(value)}" for name, value in part) for part in parts
    )


def _escape(value: str) -> str:
    text = "".join("\\" + each if each in _ESCAPED else "\\00" if each == "\0" else each for each in value)
    if text.startswith((" ", "#")):
        text = "\\" + text
    return text[:-1] + "\\ " if value.endswith(" ") and len(value) > 1 else text
