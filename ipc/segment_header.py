"""The first words of every segment: its type, its layout version, its store.

word 0   magic            stored last: a segment whose magic is 0 is still being created
word 1   layout version   incremented with any change of any layout in this package
word 2   store hash       of the store's path, so that a segment is never taken for another's
word 3…7                  the page's own (a capacity, a count of rows)
"""

from ipc.cells import store_cell
from ipc.errors import LayoutMismatch, SegmentMissing
from ipc.posix import Segment

LAYOUT_VERSION = 7

MAGIC = 0
VERSION = 1
STORE_HASH = 2
HEADER_WORDS = 8


def magic_of(text: bytes) -> int:
    """A magic number from eight ASCII letters, readable in a hex dump."""
    return int.from_bytes(text.ljust(8, b" "), "little")


def store_header(segment: Segment, magic: int, store_hash: str) -> None:
    """Declare the segment ready."""
    store_cell(segment.words, VERSION, LAYOUT_VERSION)
    store_cell(segment.words, STORE_HASH, int(store_hash, 16))
    store_cell(segment.words, MAGIC, magic)  # order: last, because it marks the segment as complete


def check_header(segment: Segment, magic: int, store_hash: str) -> None:
    """Refuse a segment that is not ready (SegmentMissing), of another kind, version or store (LayoutMismatch)."""
    words = segment.words
    if words[MAGIC] == 0:
        raise SegmentMissing(f"shared memory: {segment.name} is not initialized yet; try again")
    if words[MAGIC] != magic:
        raise LayoutMismatch(f"shared memory: {segment.name} has an unexpected type (magic {words[MAGIC]:#x})")
    if words[VERSION] != LAYOUT_VERSION:
        raise LayoutMismatch(
            f"shared memory: {segment.name} has layout {words[VERSION]}, but this program requires layout {LAYOUT_VERSION}; "
            "use the version of the running appliance, or restart the appliance"
        )
    if words[STORE_HASH] != int(store_hash, 16):
        raise LayoutMismatch(
            f"shared memory: {segment.name} belongs to store {words[STORE_HASH]:08x}, not {store_hash}"
        )
