"""What reloads of the configuration have changed: written by the supervisor, read by every role with its heartbeats.

Two halves (`json_halves`) without a name: only processes forked later share them. Word 4 of the header is the version.
"""

from typing import Any, Final

from ipc.cells import store_cell
from ipc.json_halves import JsonHalves, encode, format_halves, size_bytes
from ipc.posix import anonymous_segment

_HALF_BYTES: Final = 262_144  # limit: all changeable options of a broker take about 2 KiB
_VERSION_WORD: Final = 4


class ReloadPage:
    """One page for all roles of an appliance."""

    def __init__(self) -> None:
        segment = anonymous_segment(size_bytes(_HALF_BYTES))
        format_halves(segment, _HALF_BYTES)
        self._words = segment.words
        self._halves = JsonHalves(segment, lambda: self.version)
        self.version_at_fork = 0
        """In a child: the version when it was forked. What it inherited includes everything until then."""

    @property
    def version(self) -> int:
        """Incremented with each change; 0 before the first."""
        return self._words[_VERSION_WORD]

    def read(self) -> tuple[int, Any]:
        """The version and all changes so far; (0, None) before the first."""
        return self._halves.read()

    def store(self, changes: object) -> None:
        """For the supervisor: store all changes so far. Raises ValueError if they are too long."""
        text = encode(changes)
        if len(text) > self._halves.room_bytes:
            raise ValueError(f"the changes need {len(text)} bytes, but only {self._halves.room_bytes} are available")
        self._halves.store_next(text)
        store_cell(self._words, _VERSION_WORD, self.version + 1)  # order: last, because it selects the half
        self.version_at_fork = self.version
