"""PartialFrame: the beginning of a frame, until the rest of it has been read.

The bytes are assembled in one buffer: a frame that arrives byte by byte costs no more than one that arrives at once, and memory is used only for bytes that arrived.
"""

from typing import Final

LENGTH_UNKNOWN: Final = 4
"""The number of bytes needed to determine a frame's length."""


class PartialFrame:
    """`start`: the bytes read so far; `needed`: the frame's size in bytes, its length field included, or LENGTH_UNKNOWN."""

    __slots__ = ("_buffer", "needed")

    def __init__(self, start: bytes, needed: int) -> None:
        self._buffer = bytearray(start)
        self.needed = needed

    @property
    def is_whole(self) -> bool:
        """Whether the frame is complete."""
        return len(self._buffer) == self.needed

    def fill(self, data: bytes) -> int:
        """Takes the missing bytes from the beginning of `data`; returns their number."""
        taken = min(self.needed - len(self._buffer), len(data))
        self._buffer += data if taken == len(data) else data[:taken]
        return taken

    def take(self) -> bytes:
        """The bytes of the whole frame."""
        return bytes(self._buffer)
