"""A deadline for blocking connections: timeouts of sockets begin again with every byte that arrives."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final

_AGAIN_S: Final = 0.5
"""How often a connection is closed that was not there before."""


@contextlib.contextmanager
def deadline(seconds: float, connected: Callable[[], socket.socket | None]) -> Iterator[None]:
    """Closes the connection after `seconds`, which ends whatever waits for it; then raises TimeoutError, also if what was read seems complete.

    TLS may replace the socket meanwhile, and connecting may try many addresses: the one that is connected late is closed, too.
    """
    done, is_over = threading.Event(), threading.Event()

    def watch() -> None:
        wait_s = seconds
        while not done.wait(wait_s):
            wait_s = _AGAIN_S
            is_over.set()
            found = connected()
            if found is not None:
                with contextlib.suppress(OSError):
                    found.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        done.set()
        if is_over.is_set():
            raise TimeoutError("not complete in time")
