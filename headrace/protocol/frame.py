"""FrameDecoder: splits a connection's bytes into commands, in whatever pieces they arrive.

A decoder belongs to one direction of one connection. After an error the start of the next frame is unknown: close the connection.
The layout of a frame is in `frame_layout`.
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
"""Maximum size of a header that servers accept by default. The longest that clients send contains a message's properties (32 KiB, six times that if fully escaped).

Answers may have longer ones: the answer to a batch lists its message ids.
"""

_TOO_LONG: Final = 1 << 28  # limit: a larger number is not a length; text begins with bytes above 0x1F
_HEAD: Final = Struct(">iI")
_LENGTH: Final = Struct(">i")
_JSON: Final = SerializeType.JSON
_ROCKETMQ: Final = SerializeType.ROCKETMQ


def frame_size(data: bytes | bytearray | memoryview, at: int) -> int:
    """The size of the frame at `at`, including its length field, which must be complete. Raises BadFrame."""
    (length,) = _LENGTH.unpack_from(data, at)
    if not 4 <= length <= FRAME_MAX_LENGTH - LENGTH_SIZE:
        if length in range(FRAME_MAX_LENGTH - LENGTH_SIZE, _TOO_LONG):
            raise too_large_frame(int(length) + LENGTH_SIZE, FRAME_MAX_LENGTH)
        raise BadFrame(f"invalid frame length {length}; expected 4 to {FRAME_MAX_LENGTH - LENGTH_SIZE}")
    return int(length) + LENGTH_SIZE


def too_large_frame(size: int, limit: int) -> FrameTooLarge:
    """The error for a frame of `size` bytes that exceeds `limit`."""
    message = f"frame of {size} bytes exceeds the limit of {limit} bytes ({MAX_FRAME_SIZE})"
    return FrameTooLarge(message, MAX_FRAME_SIZE)


def _split(data: bytes | bytearray | memoryview, at: int, length: int) -> tuple[int, bytes, bytes]:
    """Returns header type, header and body of the frame of `length` bytes at `at`. Raises BadFrame."""
    _, word = _HEAD.unpack_from(data, at)
    header_end = HEAD_SIZE + (word & 0xFFFFFF)
    if length < HEAD_SIZE or header_end > length:
        raise BadFrame(f"header of {header_end - HEAD_SIZE} bytes exceeds its frame of {length} bytes")
    with memoryview(data) as view:
        return word >> 24, bytes(view[at + HEAD_SIZE : at + header_end]), bytes(view[at + header_end : at + length])


def _command(kind: int, encoded: bytes, body: bytes) -> RemotingCommand:
    """Decodes a command from its header and body. Raises BadFrame."""
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
    """Like `decode_frame`, for input from any peer: the header may have at most `header_limit` bytes."""
    if len(buffer) >= HEAD_SIZE:
        _, word = _HEAD.unpack_from(buffer)
        # A header longer than its frame is not a matter of limits: decode_frame reports it.
        if header_limit < word & 0xFFFFFF <= len(buffer) - HEAD_SIZE:
            raise FrameTooLarge(
                f"header of {word & 0xFFFFFF} bytes exceeds the limit of {header_limit} bytes ({MAX_HEADER_SIZE})",
                MAX_HEADER_SIZE,
            )
    return decode_frame(buffer)


def decode_frame(buffer: bytes | bytearray | memoryview) -> RemotingCommand:
    """Decodes exactly one complete frame. Raises BadFrame."""
    if len(buffer) < HEAD_SIZE or frame_size(buffer, 0) != len(buffer):
        raise BadFrame(f"expected exactly one complete frame, got {len(buffer)} bytes")
    return _command(*_split(buffer, 0, len(buffer)))


class FrameDecoder:
    """Decodes the commands in the bytes fed to it, in order."""

    __slots__ = ("_at", "_buffer", "_needed")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # position of the next frame
        self._needed = LENGTH_SIZE  # number of bytes needed before the next attempt

    @property
    def pending(self) -> int:
        """The number of bytes of an incomplete frame."""
        return len(self._buffer) - self._at

    def feed(self, data: bytes | bytearray | memoryview) -> list[RemotingCommand]:
        """Adds bytes and returns the commands that are now complete. Raises BadFrame, which contains the commands before the invalid frame."""
        self.receive(data)
        commands: list[RemotingCommand] = []
        try:
            while (command := self.next_frame()) is not None:
                commands.append(command)
        except BadFrame as error:
            raise BadFrame(str(error), commands) from None
        return commands

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Adds bytes, to be decoded with `next_frame`."""
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
        """The peer has closed the connection. Raises BadFrame if a frame is incomplete."""
        if self.pending:
            raise BadFrame(f"the connection was closed after {self.pending} bytes of a frame")
