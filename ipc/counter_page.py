"""A role's counter page: names and values together, so that a reader needs no list of names. That role writes.

    word 0…7    header (segment_header); word 3 is the capacity in entries
    word 8      count of entries, published after the new one is there
    word 16…    entries

    entry       word 0      value
                word 1      length of the name in bytes
                word 2…15   name, ASCII

Values only grow, also across restarts of the role, until the appliance is restarted. Entries are never removed or moved.
"""

from collections.abc import Iterable

from ipc.cells import store_bytes, store_cell
from ipc.errors import CounterPageFull
from ipc.posix import Segment
from ipc.segment_header import magic_of, store_header

MAGIC = magic_of(b"HRcounts")

CAPACITY = 3
COUNT = 8
FIRST_ENTRY_WORD = 16
ENTRY_WORDS = 16
NAME_LENGTH = 1
NAME = 2
NAME_BYTES = 112

ENTRIES = 256  # limit: 32 KiB per role; the broker has the most, a few dozen


def size_bytes(capacity: int = ENTRIES) -> int:
    """The size of a segment for so many counters."""
    return (FIRST_ENTRY_WORD + capacity * ENTRY_WORDS) * 8


def format_counter_page(segment: Segment, store_hash: str, capacity: int = ENTRIES) -> None:
    """Format a zeroed segment as an empty page."""
    store_cell(segment.words, CAPACITY, capacity)
    store_header(segment, MAGIC, store_hash)


class CounterPage:
    """Counters by name. Only the page's role may write; any process may call `read`."""

    def __init__(self, segment: Segment) -> None:
        self._words = segment.words
        self._view = segment.view
        self._indexes = {name: index for index, name in enumerate(self._read_names())}

    @classmethod
    def create(cls, segment: Segment, names: Iterable[str]) -> "CounterPage":
        """A role's page with these counters, which continue from the values of a predecessor."""
        page = cls(segment)
        for name in names:
            page.index_of(name)
        return page

    def index_of(self, name: str) -> int:
        """The index for `add_at`; creates a new counter with 0 if there is none. Raises CounterPageFull."""
        if name not in self._indexes:
            # A restarted role inherits the supervisor's page object, created before its predecessor added its counters.
            self._indexes = {known: index for index, known in enumerate(self._read_names())}
            if name not in self._indexes:
                self._indexes[name] = self._append(name)
        return self._indexes[name]

    def add(self, name: str, count: int = 1) -> None:
        """Add `count` to the counter of this name."""
        self.add_at(self.index_of(name), count)

    def add_at(self, index: int, count: int = 1) -> None:
        """The same by index, for hot paths."""
        word = FIRST_ENTRY_WORD + index * ENTRY_WORDS
        store_cell(self._words, word, self._words[word] + count)

    def read(self) -> dict[str, int]:
        """All counters by name."""
        return {
            name: self._words[FIRST_ENTRY_WORD + index * ENTRY_WORDS] for index, name in enumerate(self._read_names())
        }

    def _read_names(self) -> list[str]:
        names = []
        for index in range(self._words[COUNT]):
            word = FIRST_ENTRY_WORD + index * ENTRY_WORDS
            start = (word + NAME) * 8
            names.append(bytes(self._view[start : start + self._words[word + NAME_LENGTH]]).decode())
        return names

    def _append(self, name: str) -> int:
        text = name.encode("ascii")
        if not 0 < len(text) <= NAME_BYTES:
            raise ValueError(f"counter name {name!r}: expected 1 to {NAME_BYTES} characters")
        index: int = self._words[COUNT]
        if index >= self._words[CAPACITY]:
            raise CounterPageFull(f"no room for counter {name}: all {index} entries are taken")
        word = FIRST_ENTRY_WORD + index * ENTRY_WORDS
        store_cell(self._words, word, 0)
        store_bytes(self._view, (word + NAME) * 8, text)
        store_cell(self._words, word + NAME_LENGTH, len(text))
        store_cell(self._words, COUNT, index + 1)  # order: after the name
        return index
