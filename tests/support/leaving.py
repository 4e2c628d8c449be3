"""Servers that leave in order because the next one opens their store: Apache's without the waits that have nothing to do with it.

    with handed_on(Reference(data)) as server:
        ...
    shutil.copytree(server.store, ...)

The store is closed then, as the broker closes it when it is told to end.
"""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from support.appliance import Appliance
from support.reference import Reference

_Made = TypeVar("_Made", Reference, Appliance, Reference | Appliance)

VIP = -2
"""From a broker's port to its VIP channel's."""


@contextmanager
def handed_on(server: _Made) -> Iterator[_Made]:
    """For a server whose store somebody opens afterwards: it ends as it does on SIGTERM, or as it must when the test has failed."""
    with server:
        yield server
        if isinstance(server, Reference):
            _leave(server)


def _leave(server: Reference) -> None:
    """Ends the broker in order, and the name server, which keeps nothing and would take three seconds, at once.

    The threads with which a broker follows connections end after three seconds, or as soon as a connection does: it is given one on
    each port, which it closes as it begins to end.
    """
    file = server.data / "namesrv.pid"
    os.kill(int(file.read_text()), signal.SIGKILL)
    file.unlink()
    with ExitStack() as connections:
        for port in (server.ports[1], server.ports[1] + VIP):
            connections.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        server.stop()
