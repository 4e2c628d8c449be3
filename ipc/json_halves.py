"""Two halves of a page with JSON in each; a version selects the current half.

    word 0…7         header (segment_header); word 3 is the size of a half in bytes
    half 0, half 1   length in bytes (a word), then JSON

The lowest bit of the version selects the half; version 0 means no content. The writer fills the other half and increments the
version last, so a killed writer leaves the current half unchanged; a reader that was lapped reads again.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from ipc.cells import store_bytes, store_cell
from ipc.posix import Segment
from ipc.segment_header import HEADER_WORDS

_HALF_BYTES_WORD: Final = 3


def size_bytes(half_bytes: int) -> int:
    """The size of the segment."""
    return HEADER_WORDS * 8 + 2 * half_bytes


def format_halves(segment: Segment, half_bytes: int) -> None:
    """Store the size of a half, before the header is stored."""
    store_cell(segment.words, _HALF_BYTES_WORD, half_bytes)


def encode(value: object) -> bytes:
    """The JSON of a value as it is stored."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class JsonHalves:
    """Both halves. `version()` is the current version."""

    def __init__(self, segment: Segment, version: Callable[[], int]) -> None:
        self._words = segment.words
        self._view = segment.view
        self._version = version
        self._half_bytes = segment.words[_HALF_BYTES_WORD]

    @property
    def room_bytes(self) -> int:
        """The maximum size of JSON in a half."""
        return self._half_bytes - 8

    def read(self) -> tuple[int, Any]:
        """The version and its value; (0, None) if there is none."""
        while True:
            version = self._version()
            if version == 0:
                return 0, None
            start = self._start_of(version)
            length = self._words[start // 8]
            text = bytes(self._view[start + 8 : start + 8 + length])
            if self._version() == version:
                return version, json.loads(text)

    def store_next(self, text: bytes) -> None:
        """Store the value of the next version; increment the version afterwards. At most `room_bytes`."""
        start = self._start_of(self._version() + 1)
        store_cell(self._words, start // 8, len(text))
        store_bytes(self._view, start + 8, text)

    def _start_of(self, version: int) -> int:
        return HEADER_WORDS * 8 + (version & 1) * self._half_bytes
