"""System calls on sockets past the event loop's transport, for compiled modules, whose own work takes less time than a call of the transport.

- Sending (`channel`): only while the transport has nothing to send; what the kernel does not take at once goes to the transport, which then waits
  for the peer.
- Receiving (`socket_reader`): only while the transport does not read.

Compiled modules use the C functions of the `.pxd` beside this file. Interpreted ones leave everything to the transport: `try_send` sends nothing, and
there is no reader that would call the others. This is a package because it must not be compiled itself: compiled and interpreted modules may then be
mixed.
"""

from typing import Any


def can_receive() -> bool:
    """Whether all of these may be called: only in compiled modules."""
    return False


def try_send(fd: int, data: bytes) -> int:  # noqa: ARG001
    """How many bytes the kernel took, without waiting. 0 also after an error, which the transport will meet, and in interpreted modules."""
    return 0


def wait(epoll: int, events: Any) -> int:
    """Fills `events` with what has happened in the epoll set, without waiting, and returns how many there are."""
    raise NotImplementedError


def fd_of(event: Any) -> int:
    """The descriptor of an event."""
    raise NotImplementedError


def has_ended(event: Any) -> bool:
    """Whether nothing comes after the bytes that the socket has."""
    raise NotImplementedError


def receive(fd: int) -> bytes | None:
    """The bytes that a socket has, RECEIVE_LIMIT at most, without waiting; None if it has none, empty at the end. Raises OSError."""
    raise NotImplementedError
