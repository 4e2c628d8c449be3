"""The console's listening socket. It is bound before anything heavy is imported, so that an attempt on a busy port costs little."""

import errno
import socket

from web.errors import PortTaken

_BACKLOG = 128  # limit: browsers open a handful of connections each


def bind(host: str, port: int) -> socket.socket:
    """Binds and listens; non-blocking. Port 0 takes a free one. Raises PortTaken, or OSError if the address is not this machine's."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(host, port) from error
        raise
    return listener
