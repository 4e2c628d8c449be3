"""Bells wake processes that wait for an offset. They are hints; only the offsets determine what a process does.

A bell is an eventfd and the sleeper's `asleep` cell. A ring is a system call and a wake-up on another processor, more expensive than
a send, so only sleeping processes are rung. This order on both sides ensures that no ring is missed:

    the sleeper                         the ringer
    store asleep = 1                    store the offset
    full fence                          full fence
    load the offsets again              load asleep
    poll, unless there is work          ring, if it is set

Either the sleeper sees the offset or the ringer sees the sleeper. Without the fences each may load before its own store is
visible, and both miss. The eventfd counts, so a ring between the second load and the poll is kept.

A role that will look by itself in a few milliseconds naps instead (`asleep` = 2): it is rung only while a certain cell, loaded after `asleep`, says that
somebody waits for it.

Each wake-up of a role passes through here, while its caches are cold, so this is a hot module (types in the `.pxd`).
"""

import os
from typing import Final

import cython

if not cython.compiled:
    from ipc.cells import cells_of, full_fence, keep_words, load_cell, store_cell
    from ipc.eventfds import drain_eventfd, ring_eventfd

_SLEEPS: Final = 1
_NAPS: Final = 2
_NO_WORD: Final = -1


class Bell:
    """The bell of a role: `prepare_sleep`, `prepare_nap`, `woke` and `drain` are for the sleeper only, `ring` for processes with work for it."""

    __slots__ = ("_asleep_word", "_cells", "_urgent_word", "_words", "fd")

    def __init__(self, fd: int, words: memoryview, asleep_word: int, urgent_word: int | None = None) -> None:
        """`urgent_word`: the cell that is not 0 while a nap must be ended."""
        self.fd = fd
        self._words = keep_words(words)
        self._cells = cells_of(words)
        self._asleep_word = asleep_word
        self._urgent_word = _NO_WORD if urgent_word is None else urgent_word

    def ring(self) -> bool:
        """Wake the sleeper if it sleeps. Call after publishing, once per batch. Returns whether it rang."""
        full_fence()  # order: after the caller's publishing, before the load
        asleep = load_cell(self._cells, self._asleep_word)
        if not asleep or (asleep == _NAPS and not self.is_urgent):
            return False
        ring_eventfd(self.fd)
        return True

    def prepare_sleep(self) -> None:
        """Request to be rung. Then load the offsets *again*, and poll `fd` only if there is still nothing to do."""
        store_cell(self._cells, self._asleep_word, _SLEEPS)
        full_fence()  # order: after the store, before the caller's second load

    def prepare_nap(self) -> None:
        """Request to be rung while `is_urgent`. Then look for urgent work *again*, and poll `fd` for a short time if there is none."""
        store_cell(self._cells, self._asleep_word, _NAPS)
        full_fence()  # order: as above

    @property
    def is_urgent(self) -> bool:
        """Whether somebody waits for the role's work."""
        return self._urgent_word != _NO_WORD and load_cell(self._cells, self._urgent_word) != 0

    def woke(self) -> None:
        """No longer asleep: saves other processes the system call."""
        store_cell(self._cells, self._asleep_word, 0)

    def drain(self) -> bool:
        """Consume all rings, so that the next poll waits. Call before loading the offsets. Returns whether there were any."""
        return drain_eventfd(self.fd)


def create_eventfd() -> int:
    """An eventfd for a bell: never blocks, is inherited by fork, closed by exec."""
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
