"""How a cell of shared memory is stored. The only file that does it.

A cell is a signed 64-bit integer, native byte order, 8-byte aligned: one machine store, which no reader ever sees half done.
`struct.pack_into(">q", …)` into a mapping is *not* one store (it was seen half-written in a third of the reads).

On x86-64 stores become visible in program order, which *publish last* needs. What the processor may do is let a load pass
an earlier store; where that matters (bells) there is `full_fence`. A compiled loop that stores a cell itself needs
one aligned `volatile int64_t` store; a call to a publisher once a batch is cheap enough.
"""

import threading

_fence = threading.Lock()


def store_cell(words: memoryview, word: int, value: int) -> None:
    """Store `value` into the cell at index `word` of a `memoryview.cast("q")`."""
    words[word] = value


def store_bytes(view: memoryview, start: int, text: bytes) -> None:
    """Copy `text` to byte `start`. Not atomic: only under a generation that is odd, or before a count is published."""
    view[start : start + len(text)] = text


def full_fence() -> None:
    """No load after this line happens before a store before it.

    Taking and releasing an uncontended lock is a locked instruction each, which is a full barrier on x86-64. The lock is
    this process's own: never one that is shared, which a killed holder would keep for ever. Forked children have a copy;
    the supervisor forks without threads, so nobody holds it then.
    """
    with _fence:
        pass
