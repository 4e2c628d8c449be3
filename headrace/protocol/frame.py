"""FrameDecoder: a connection's bytes, cut into commands however they arrive.

A decoder belongs to one direction of one connection. After it has raised there is no telling where the next frame begins: close the connection.
The form of a frame is drawn in `frame_layout`.
"""

from struct import Struct
from typing import Final

from headrace.errors import BadFrame, FrameTooLarge, RemoteProtocolError
from headrace.model.connection_limits import DEFAULT_HEADER_SIZE, MAX_FRAME_SIZE, MAX_HEADER_SIZE
from headrace.protocol.binary_header import decode_binary_header
from headrace.protocol.frame_layout import FRAME_MAX_LENGTH, HEAD_SIZE, LENGTH_SIZE, SerializeType
from headrace.protocol.json_header import decode_json_header
from headrace.protocol.remoting_command import RemotingCommand, next_opaque

__all__ = ["FRAME_MAX_LENGTH", "FrameDecoder", "decode_frame", "decode_request", "frame_size"]

REQUEST_HEADER_MAX: Final = DEFAULT_HEADER_SIZE
"""Bytes of a header that servers read by default. The longest that clients send holds a message's properties (32 KiB, six times that if all is escaped).

Answers may have longer ones: that to a batch lists the ids of its messages.
"""

_TOO_LONG: Final = 1 << 28  # limit: a longer length is no length at all: text begins with bytes above 0x1F
_HEAD: Final = Struct(">iI")
_LENGTH: Final = Struct(">i")
_JSON: Final = SerializeType.JSON
_ROCKETMQ: Final = SerializeType.ROCKETMQ


def frame_size(data: bytes | bytearray | memoryview, at: int) -> int:
    """The size of the frame at `at`, its length field included, of which at least that field is there. Raises BadFrame."""
    (length,) = _LENGTH.unpack_from(data, at)
    if not 4 <= length <= FRAME_MAX_LENGTH - LENGTH_SIZE:
        if length in range(FRAME_MAX_LENGTH - LENGTH_SIZE, _TOO_LONG):
            raise too_large_frame(int(length) + LENGTH_SIZE, FRAME_MAX_LENGTH)
        raise BadFrame(f"invalid frame length {length}; expected 4 to {FRAME_MAX_LENGTH - LENGTH_SIZE}")
    return int(length) + LENGTH_SIZE


def too_large_frame(size: int, limit: int) -> FrameTooLarge:
    """The error of a frame of `size` bytes where `limit` are accepted."""
    message = f"frame of {size} bytes exceeds the limit of {limit} bytes ({MAX_FRAME_SIZE})"
    return FrameTooLarge(message, MAX_FRAME_SIZE)


def _split(data: bytes | bytearray | memoryview, at: int, length: int) -> tuple[int, bytes, bytes]:
    """Header type, header and body of the frame of `length` bytes at `at`. Raises BadFrame."""
    _, word = _HEAD.unpack_from(data, at)
    header_end = HEAD_SIZE + (word & 0xFFFFFF)
    if length < HEAD_SIZE or header_end > length:
        raise BadFrame(f"header of {header_end - HEAD_SIZE} bytes exceeds its frame of {length} bytes")
    with memoryview(data) as view:
        return word >> 24, bytes(view[at + HEAD_SIZE : at + header_end]), bytes(view[at + header_end : at + length])


def _command(kind: int, encoded: bytes, body: bytes) -> RemotingCommand:
    """The command with this header and body. Raises BadFrame."""
    try:
        if kind == _JSON:
            header, serialize_type = decode_json_header(encoded), _JSON
        elif kind == _ROCKETMQ:
            header, serialize_type = decode_binary_header(encoded), _ROCKETMQ
        else:
            raise BadFrame(f"unknown header type {kind}; expected 0 (JSON) or 1 (ROCKETMQ)")
    except BadFrame:
        raise
    except RemoteProtocolError as error:
        raise BadFrame(str(error)) from None
    code, language, version, opaque, flag, remark, ext_fields = header
    if opaque is None:
        opaque = next_opaque()
    return RemotingCommand(code, language, version, opaque, flag, remark, ext_fields, body, serialize_type)


def decode_request(buffer: bytes | bytearray | memoryview, header_limit: int = REQUEST_HEADER_MAX) -> RemotingCommand:
    """As `decode_frame`, for what anybody may send: its header is not longer than `header_limit` bytes."""
    if len(buffer) >= HEAD_SIZE:
        _, word = _HEAD.unpack_from(buffer)
        # A header that is longer than its frame is no matter of limits: decode_frame reports it.
        if header_limit < word & 0xFFFFFF <= len(buffer) - HEAD_SIZE:
            raise FrameTooLarge(
                f"header of {word & 0xFFFFFF} bytes exceeds the limit of {header_limit} bytes ({MAX_HEADER_SIZE})",
                MAX_HEADER_SIZE,
            )
    return decode_frame(buffer)


def decode_frame(buffer: bytes | bytearray | memoryview) -> RemotingCommand:
    """The command in exactly one whole frame. Raises BadFrame."""
    if len(buffer) < HEAD_SIZE or frame_size(buffer, 0) != len(buffer):
        raise BadFrame(f"{len(buffer)} bytes are not one complete frame")
    return _command(*_split(buffer, 0, len(buffer)))


class FrameDecoder:
    """Gives the commands in the bytes fed to it, in order."""

    __slots__ = ("_at", "_buffer", "_needed")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # what lies before has been given out
        self._needed = LENGTH_SIZE  # so many bytes must be there before it is worth while to look again

    @property
    def pending(self) -> int:
        """How many bytes of a frame not yet complete are held."""
        return len(self._buffer) - self._at

    def feed(self, data: bytes | bytearray | memoryview) -> list[RemotingCommand]:
        """Takes bytes and gives the commands that are now complete. Raises BadFrame, with the commands before the bad frame in it."""
        self.receive(data)
        commands: list[RemotingCommand] = []
        try:
            while (command := self.next_frame()) is not None:
                commands.append(command)
        except BadFrame as error:
            raise BadFrame(str(error), commands) from None
        return commands

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Takes bytes, to be asked for with `next_frame`."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def next_frame(self) -> RemotingCommand | None:
        """The next command, or None if more bytes are needed. Raises BadFrame."""
        available = len(self._buffer) - self._at
        if available < self._needed:
            return None
        length = frame_size(self._buffer, self._at)
        if available < length:
            self._needed = length
            return None
        command = _command(*_split(self._buffer, self._at, length))
        self._at += length
        self._needed = LENGTH_SIZE
        return command

    def eof(self) -> None:
        """The peer has closed its side. Raises BadFrame if that was in the middle of a frame."""
        if self.pending:
            raise BadFrame(f"the connection was closed after {self.pending} bytes of a frame")
