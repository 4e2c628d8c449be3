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
"""

import os

from ipc.cells import full_fence, store_cell


class Bell:
    """The bell of a role: `prepare_sleep`, `woke` and `drain` are for the sleeper only, `ring` for processes with work for it."""

    __slots__ = ("_asleep_word", "_words", "fd")

    def __init__(self, fd: int, words: memoryview, asleep_word: int) -> None:
        self.fd = fd
        self._words = words
        self._asleep_word = asleep_word

    def ring(self) -> bool:
        """Wake the sleeper if it sleeps. Call after publishing, once per batch. Returns whether it rang."""
        full_fence()  # order: after the caller's publishing, before the load
        if not self._words[self._asleep_word]:
            return False
        os.eventfd_write(self.fd, 1)
        return True

    def prepare_sleep(self) -> None:
        """Request to be rung. Then load the offsets *again*, and poll `fd` only if there is still nothing to do."""
        store_cell(self._words, self._asleep_word, 1)
        full_fence()  # order: after the store, before the caller's second load

    def woke(self) -> None:
        """No longer asleep: saves other processes the system call."""
        store_cell(self._words, self._asleep_word, 0)

    def drain(self) -> bool:
        """Consume all rings, so that the next poll waits. Call before loading the offsets. Returns whether there were any."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return False
        return True


def create_eventfd() -> int:
    """An eventfd for a bell: never blocks, is inherited by fork, closed by exec."""
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
