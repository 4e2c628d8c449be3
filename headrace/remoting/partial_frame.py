"""PartialFrame: the beginning of a frame, until the rest of it has been read.

What has come lies in one piece: a frame that arrives byte by byte costs no more than one that arrives at once, and one that never comes costs nothing.
"""

from typing import Final

LENGTH_UNKNOWN: Final = 4
"""How many bytes are needed to learn a frame's length."""


class PartialFrame:
    """`start` is what was read; `needed` is the frame's size in bytes, its length field included, or LENGTH_UNKNOWN."""

    __slots__ = ("_buffer", "needed")

    def __init__(self, start: bytes, needed: int) -> None:
        self._buffer = bytearray(start)
        self.needed = needed

    @property
    def is_whole(self) -> bool:
        """Whether all bytes are there."""
        return len(self._buffer) == self.needed

    def fill(self, data: bytes) -> int:
        """Takes what it lacks from the beginning of `data`; returns how many bytes that were."""
        taken = min(self.needed - len(self._buffer), len(data))
        self._buffer += data if taken == len(data) else data[:taken]
        return taken

    def take(self) -> bytes:
        """The bytes of the whole frame."""
        return bytes(self._buffer)
