"""Servers that stop cleanly because another one opens their store, without Apache's unrelated waits.

    with stopped_cleanly(Reference(data)) as server:
        ...
    shutil.copytree(server.store, ...)

The store is then closed, as by a broker that stops on SIGTERM.
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
def stopped_cleanly(server: _Made) -> Iterator[_Made]:
    """A server whose store is opened afterwards: it stops as on SIGTERM, or is killed if the test has failed."""
    with server:
        yield server
        if isinstance(server, Reference):
            _stop_cleanly(server)


def _stop_cleanly(server: Reference) -> None:
    """Stops the broker cleanly, and kills the name server, which keeps no data and would take three seconds.

    The broker's connection threads end after three seconds, or as soon as a connection does: each port gets a
    connection that is closed as the broker begins to stop.
    """
    file = server.data / "namesrv.pid"
    os.kill(int(file.read_text()), signal.SIGKILL)
    file.unlink()
    with ExitStack() as connections:
        for port in (server.ports[1], server.ports[1] + VIP):
            connections.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        server.stop()
