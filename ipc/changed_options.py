"""The options changed at run time: written by the broker, read by the roles that follow them.

Two halves (`json_halves`), each {key: text} of all changes since the appliance started. The cell `config_version` selects the current one.
"""

from collections.abc import Mapping

from ipc.control_block import ControlBlock
from ipc.json_halves import JsonHalves, encode, format_halves
from ipc.json_halves import size_bytes as size_of_halves
from ipc.posix import Segment
from ipc.segment_header import magic_of, store_header

MAGIC = magic_of(b"HRoption")

HALF_BYTES = 32_768  # limit: all changeable options take about 2 KiB; a few contain lists of names


def size_bytes() -> int:
    """The size of the segment."""
    return size_of_halves(HALF_BYTES)


def format_changed_options(segment: Segment, store_hash: str) -> None:
    """Format a zeroed segment as an empty page."""
    format_halves(segment, HALF_BYTES)
    store_header(segment, MAGIC, store_hash)


class ChangedOptions:
    """The reader's side."""

    def __init__(self, segment: Segment, control: ControlBlock) -> None:
        self._control = control
        self._halves = JsonHalves(segment, lambda: control.config_version)

    @property
    def version(self) -> int:
        """Incremented with each change; 0 before the first."""
        return self._control.config_version

    def read(self) -> tuple[int, dict[str, str]]:
        """The version, and the text of every option changed so far."""
        version, texts = self._halves.read()
        return version, texts or {}


class ChangedOptionsWriter:
    """For the broker only."""

    def __init__(self, segment: Segment, control: ControlBlock) -> None:
        self._halves = JsonHalves(segment, lambda: control.config_version)

    def store(self, texts: Mapping[str, str]) -> None:
        """Store the content for the next `config_version`; increment that cell afterwards. Raises ValueError without room (`has_room`)."""
        text = encode(texts)
        if len(text) > self._halves.room_bytes:
            raise ValueError(
                f"the changed options need {len(text)} bytes, but only {self._halves.room_bytes} are available"
            )
        self._halves.store_next(text)


def has_room(texts: Mapping[str, str]) -> bool:
    """Whether the page has room for this content."""
    return len(encode(texts)) <= HALF_BYTES - 8
