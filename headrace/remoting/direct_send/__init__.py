"""Sends to a socket past the event loop's transport, for compiled modules: a call of the transport takes longer than all else of an answer's way out.

Only while the transport has nothing to send: what the kernel does not take at once goes to the transport, which then waits for the peer.

Compiled modules use the C function of the `.pxd` beside this file, interpreted ones the function below. This is a package because it must
not be compiled itself: compiled and interpreted modules may then be mixed.
"""


def try_send(fd: int, data: bytes) -> int:  # noqa: ARG001
    """How many bytes the kernel took, without waiting. 0 also after an error, which the transport will meet, and in interpreted modules."""
    return 0
