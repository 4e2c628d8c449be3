"""Rings and drains eventfds. Both are called with every wake-up of a role, while its caches are cold.

Compiled modules use the C functions of the `.pxd` beside this file, interpreted ones the functions below. This is a package because it must
not be compiled itself: compiled and interpreted modules may then be mixed.
"""

import os


def ring_eventfd(fd: int) -> None:
    """Adds 1 to its count. Raises OSError."""
    os.eventfd_write(fd, 1)


def drain_eventfd(fd: int) -> bool:
    """Sets its count to 0. Returns False if it was 0 already. Raises OSError."""
    try:
        os.eventfd_read(fd)
    except BlockingIOError:
        return False
    return True
