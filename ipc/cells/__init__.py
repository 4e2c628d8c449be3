"""Stores cells of shared memory. The only file that does.

A cell is a signed 64-bit integer, native byte order, 8-byte aligned: one machine store, which readers never see half-written.
`struct.pack_into(">q", …)` into a mapping is *not* one store (it was seen half-written in a third of the reads).

On x86-64 stores become visible in program order, which *publish last* needs. What the processor may do is let a load pass
an earlier store; where that matters (bells) there is `full_fence`.

Compiled modules use the C functions of the `.pxd` beside this file, interpreted ones the functions below. This is a package because it must
not be compiled itself: compiled and interpreted modules may then be mixed.
"""

import threading

_fence = threading.Lock()


def keep_words(words: memoryview) -> memoryview:
    """`words`, for an object that also keeps `cells_of` them. Compiled, a view of its own: the memory stays mapped if the segment is closed."""
    return words


def cells_of(words: memoryview) -> memoryview:
    """Where `load_cell` and `store_cell` find the words. Compiled, a pointer, for as long as the words are kept (`keep_words`)."""
    return words


def writable_cells_of(words: memoryview) -> memoryview:
    """The same, to store cells. Raises TypeError if the words are mapped for reading only."""
    if words.readonly:
        raise TypeError("these cells are read-only: only their writer may store them")
    return words


def load_cell(words: memoryview, word: int) -> int:
    """The value of the cell at index `word`."""
    value: int = words[word]
    return value


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
