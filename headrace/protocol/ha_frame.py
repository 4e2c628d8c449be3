"""The bytes of an HA connection: a slave's report of its offset, and a master's frame of the log (store spec 9.2).

    slave → master   8 offset: reports repeatedly that it has everything below
    master → slave   8 offset, 4 n, then n bytes of the CommitLog from that offset on; n = 0 is a heartbeat

Frames may split records anywhere. No frame extends beyond the end of a CommitLog file.
"""

from struct import Struct
from typing import Final, NamedTuple

from headrace.errors import RemoteProtocolError

REPORT_SIZE: Final = 8
HEAD_SIZE: Final = 12

MAX_TRANSFER_SIZE: Final = 32 * 1024
"""Maximum size of a frame of RocketMQ's masters (haTransferBatchSize)."""

MAX_FRAME_SIZE: Final = 64 * 1024 * 1024
"""# limit: 2048 times what a master sends; a larger number is not a length."""

_REPORT: Final = Struct(">q")
_HEAD: Final = Struct(">qi")


class HaFrame(NamedTuple):
    """Bytes of the log from `physical_offset` on; a heartbeat if there are none."""

    physical_offset: int
    data: bytes | memoryview


def encode_report(physical_offset: int) -> bytes:
    """Encodes a slave's report that it has everything below `physical_offset`."""
    return _REPORT.pack(physical_offset)


def encode_head(physical_offset: int, length: int) -> bytes:
    """Encodes the head of a master's frame, to be followed by `length` bytes."""
    return _HEAD.pack(physical_offset, length)


class ReportDecoder:
    """Decodes a slave's reports, in whatever pieces they arrive."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes | bytearray | memoryview) -> int | None:
        """Adds bytes and returns the last offset reported; None if no report is complete."""
        data = self._rest + bytes(data)
        whole = len(data) // REPORT_SIZE * REPORT_SIZE
        self._rest = data[whole:]
        return int(_REPORT.unpack_from(data, whole - REPORT_SIZE)[0]) if whole else None


class HaFrameDecoder:
    """Decodes a master's frames, in whatever pieces they arrive."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes | memoryview) -> list[HaFrame]:
        """Adds bytes and returns the frames that are now complete. Raises RemoteProtocolError for an invalid length; close the connection then.

        Frames are not copied: they are views of `data`, except one that began in earlier bytes.
        """
        frames: list[HaFrame] = []
        view, at = memoryview(data), 0
        while self._rest:
            size = self._size(self._rest)
            if len(self._rest) == size:
                whole = memoryview(self._rest)
                frames.append(HaFrame(_HEAD.unpack_from(whole)[0], whole[HEAD_SIZE:]))
                self._rest = bytearray()
                break
            if at == len(view):
                return frames
            piece = view[at : at + size - len(self._rest)]
            self._rest += piece
            at += len(piece)
        while at < len(view):
            size = self._size(view[at : at + HEAD_SIZE])
            if size > len(view) - at:
                break
            frames.append(HaFrame(_HEAD.unpack_from(view, at)[0], view[at + HEAD_SIZE : at + size]))
            at += size
        self._rest += view[at:]
        return frames

    def _size(self, begin: bytearray | memoryview) -> int:
        """The size of a frame that begins like this; that of its head while that is incomplete."""
        if len(begin) < HEAD_SIZE:
            return HEAD_SIZE
        physical_offset, length = _HEAD.unpack_from(begin)
        if not 0 <= length <= MAX_FRAME_SIZE:
            raise RemoteProtocolError(f"HA: invalid frame length {length} at offset {physical_offset}")
        return HEAD_SIZE + int(length)
