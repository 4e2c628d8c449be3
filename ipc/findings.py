"""Findings about consumer groups, for operators: written by the broker, read by `headrace status` even if the broker is down.

Two halves (`json_halves`), each a list of objects, oldest first; word 4 of the header is the version, which selects the current one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ipc.cells import store_cell
from ipc.json_halves import JsonHalves, encode, format_halves
from ipc.json_halves import size_bytes as size_of_halves
from ipc.posix import Segment
from ipc.segment_header import magic_of, store_header

MAGIC = magic_of(b"HRfindng")

HALF_BYTES = 65_536  # limit: about two hundred findings; operators read the first ten

_VERSION_WORD = 4


def size_bytes() -> int:
    """The size of the segment."""
    return size_of_halves(HALF_BYTES)


def format_findings(segment: Segment, store_hash: str) -> None:
    """Format a zeroed segment as an empty page."""
    format_halves(segment, HALF_BYTES)
    store_header(segment, MAGIC, store_hash)


class FindingsPage:
    """The page, for readers; only the broker stores."""

    def __init__(self, segment: Segment) -> None:
        self._words = segment.words
        self._halves = JsonHalves(segment, lambda: segment.words[_VERSION_WORD])

    def read(self) -> list[dict[str, Any]]:
        """Findings that still apply."""
        return self._halves.read()[1] or []

    def store(self, findings: Sequence[Mapping[str, Any]]) -> int:
        """For the broker only: replaces all findings. Returns how many, from the end, did not fit."""
        texts: list[bytes] = []
        room = self._halves.room_bytes - 2
        for finding in findings:
            text = encode(finding)
            room -= len(text) + 1
            if room < 0:
                break
            texts.append(text)
        self._halves.store_next(b"[" + b",".join(texts) + b"]")
        store_cell(self._words, _VERSION_WORD, self._words[_VERSION_WORD] + 1)
        return len(findings) - len(texts)
