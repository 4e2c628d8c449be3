"""The options that were changed at run time: the broker writes, the roles that follow them read.

    word 0…7   header (segment_header); word 3 is the size of a half in bytes
               half 0, half 1: length in bytes (a word), then JSON: {key: text} of all that was changed since the appliance began

`config_version` says which half counts: the one of its lowest bit. The writer fills the other one and raises the cell last, so
a writer that is killed leaves the half that counts as it was; a reader that was lapped reads again.
"""

import json
from collections.abc import Mapping

from ipc.cells import store_bytes, store_cell
from ipc.control_block import ControlBlock
from ipc.posix import Segment
from ipc.segment_header import HEADER_WORDS, magic_of, store_header

MAGIC = magic_of(b"HRoption")

HALF_BYTES_WORD = 3
HALF_BYTES = 32_768  # limit: all options that may change take some 2 KiB; a few hold lists of names


def size_bytes() -> int:
    """The size of the segment."""
    return HEADER_WORDS * 8 + 2 * HALF_BYTES


def format_changed_options(segment: Segment, store_hash: str) -> None:
    """Make an empty page of a zeroed segment."""
    store_cell(segment.words, HALF_BYTES_WORD, HALF_BYTES)
    store_header(segment, MAGIC, store_hash)


class ChangedOptions:
    """The reader's side."""

    def __init__(self, segment: Segment, control: ControlBlock) -> None:
        self._words = segment.words
        self._view = segment.view
        self._control = control

    @property
    def version(self) -> int:
        """Moves with each change; 0 while there was none."""
        return self._control.config_version

    def read(self) -> tuple[int, dict[str, str]]:
        """The version, and every option that was changed so far with its text."""
        while True:
            version = self._control.config_version
            if version == 0:
                return 0, {}
            start = _half_of(version)
            length = self._words[start // 8]
            text = bytes(self._view[start + 8 : start + 8 + length])
            if self._control.config_version == version:
                return version, json.loads(text)


class ChangedOptionsWriter:
    """For the broker only."""

    def __init__(self, segment: Segment, control: ControlBlock) -> None:
        self._words = segment.words
        self._view = segment.view
        self._control = control

    def store(self, texts: Mapping[str, str]) -> None:
        """Store what the next `config_version` shall mean; raise that cell afterwards. Raises ValueError if it `has_room` not."""
        text = _encode(texts)
        if len(text) > HALF_BYTES - 8:
            raise ValueError(f"the changed options take {len(text)} bytes, there is room for {HALF_BYTES - 8}")
        start = _half_of(self._control.config_version + 1)
        store_cell(self._words, start // 8, len(text))
        store_bytes(self._view, start + 8, text)


def has_room(texts: Mapping[str, str]) -> bool:
    """Whether the page holds so much."""
    return len(_encode(texts)) <= HALF_BYTES - 8


def _half_of(version: int) -> int:
    return HEADER_WORDS * 8 + (version & 1) * HALF_BYTES


def _encode(texts: Mapping[str, str]) -> bytes:
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
