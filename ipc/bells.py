"""Bells: how a process that waits for an offset is woken. Hints only; the offsets are the truth.

A bell is an eventfd and the sleeper's `asleep` cell. A ring is a system call and a wake-up on another processor, dearer than
a send, so nobody rings who need not. That nobody sleeps through a ring rests on this order on both sides:

    the sleeper                         the ringer
    store asleep = 1                    store the offset
    full fence                          full fence
    load the offsets again              load asleep
    poll, unless there is work          ring, if it is set

Either the sleeper sees the offset or the ringer sees the sleeper. Without the fences each may load before its own store is
seen, and both miss. The eventfd counts, so a ring between the second look and the poll is kept.
"""

import os

from ipc.cells import full_fence, store_cell


class Bell:
    """One role's bell: `prepare_sleep`, `woke` and `drain` for the sleeper only, `ring` for those who have work for it."""

    __slots__ = ("_asleep_word", "_words", "fd")

    def __init__(self, fd: int, words: memoryview, asleep_word: int) -> None:
        self.fd = fd
        self._words = words
        self._asleep_word = asleep_word

    def ring(self) -> bool:
        """Wake the sleeper if it sleeps. After publishing, once a batch. Says whether it rang."""
        full_fence()  # order: after the caller's publishing, before the load
        if not self._words[self._asleep_word]:
            return False
        os.eventfd_write(self.fd, 1)
        return True

    def prepare_sleep(self) -> None:
        """Ask to be rung. Then look at the offsets *again*, and poll `fd` only if there is still nothing to do."""
        store_cell(self._words, self._asleep_word, 1)
        full_fence()  # order: after the store, before the caller's second look

    def woke(self) -> None:
        """No longer asleep: save the others the system call."""
        store_cell(self._words, self._asleep_word, 0)

    def drain(self) -> bool:
        """Forget the rings so far, so that the next poll waits. Before looking at the offsets. Says whether there were any."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return False
        return True


def create_eventfd() -> int:
    """An eventfd for a bell: never blocks, is inherited by fork, closed by exec."""
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
