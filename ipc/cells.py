"""Stores cells of shared memory. The only file that does.

A cell is a signed 64-bit integer, native byte order, 8-byte aligned: one machine store, which readers never see half-written.
`struct.pack_into(">q", …)` into a mapping is *not* one store (it was seen half-written in a third of the reads).

On x86-64 stores become visible in program order, which *publish last* needs. What the processor may do is let a load pass
an earlier store; where that matters (bells) there is `full_fence`. A compiled loop that stores a cell itself needs
one aligned `volatile int64_t` store; a call to a publisher once per batch is cheap enough.
"""

import threading

_fence = threading.Lock()


def store_cell(words: memoryview, word: int, value: int) -> None:
    """Store `value` into the cell at index `word` of a `memoryview.cast("q")`."""
    words[word] = value


def store_cells(words: memoryview, first: int, cells: memoryview) -> None:
    """Copy cells to the index `first`. Only before a count is published: they are not stored in order."""
    words[first : first + len(cells)] = cells


def store_bytes(view: memoryview, start: int, text: bytes) -> None:
    """Copy `text` to byte `start`. Not atomic: only while a generation is odd, or before a count is published."""
    view[start : start + len(text)] = text


def full_fence() -> None:
    """A full memory fence: no later load happens before an earlier store.

    Acquiring and releasing an uncontended lock are locked instructions, which are full barriers on x86-64. The lock is
    private to this process: a killed holder would keep a shared one for ever. Forked children have a copy;
    the supervisor forks without threads, so it is not held then.
    """
    with _fence:
        pass
