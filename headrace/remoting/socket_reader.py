# cython: wraparound=False, auto_pickle=False

"""SocketReader: reads the sockets of a server's plain-text connections, past the event loop's transports.

    kernel ──► an epoll set of our own ──► the event loop watches the set ──► one `recv` for each readable socket ──► Channel.data_received

The transport's way from a readable socket to its channel takes 2,000 instructions more. It still writes what the kernel does not take at once, and
closes the socket.

- A channel is watched after its first bytes, which tell plain text from TLS, and not while it is paused.
- A channel whose client waits for its turn (`turns`) is read in that turn: what it costs is the client's time, and the bytes wait in the kernel.
- The set is edge-triggered, so that a socket is looked at once for each event. A `recv` that does not fill its buffer has emptied the socket, and what
  comes later is another event. After a full one, and where the stream has ended behind the bytes, the kernel is asked again in the next turn.

Called for every read, so this is a hot module (types in the `.pxd`). Interpreted, there is no reader, and transports read.
"""

import asyncio
import contextlib
import select
from typing import Any, Final

from headrace.remoting import socket_calls
from headrace.remoting.channel import Channel

_RECEIVE_LIMIT: Final = 256 << 10
"""As in `socket_calls`."""
_EVENTS: Final[int] = sum(getattr(select, name, 0) for name in ("EPOLLIN", "EPOLLRDHUP", "EPOLLET"))
"""Linux has them."""


class SocketReader:
    """The watched sockets of one event loop. `watch` and `unwatch` may be called at any time, also from a channel that is just being given data."""

    _events: Any

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use `make_reader`."""
        self._loop = loop
        self._epoll = select.epoll()
        self._fd = self._epoll.fileno()
        self._channels: list[Channel | None] = []  # by descriptor
        loop.add_reader(self._fd, self._run)

    def watch(self, fd: int, channel: Channel) -> bool:
        """Gives the channel what its socket receives from now on. Returns False if the kernel refuses: the transport must read then."""
        channels = self._channels
        if fd >= len(channels):
            channels.extend([None] * (fd + 1 - len(channels)))
        if channels[fd] is not channel:
            # Another channel there has lost its socket, which the kernel has removed from the set.
            try:
                self._epoll.register(fd, _EVENTS)
            except (OSError, ValueError):  # ValueError: it is closed
                return False
            channels[fd] = channel
        return True

    def unwatch(self, fd: int, channel: Channel) -> None:
        """Gives the channel nothing any more."""
        if self._channels[fd] is channel:
            self._channels[fd] = None
            with contextlib.suppress(OSError, ValueError):  # the transport has closed the socket already
                self._epoll.unregister(fd)

    def close(self) -> None:
        """Ends reading for good. May be called repeatedly."""
        if not self._epoll.closed:
            self._loop.remove_reader(self._fd)
            self._epoll.close()

    def _run(self) -> None:
        for each in range(socket_calls.wait(self._fd, self._events)):
            fd = socket_calls.fd_of(self._events[each])
            channel = self._channels[fd]
            if channel is None:
                continue  # since this turn began
            has_ended = socket_calls.has_ended(self._events[each])
            if not channel.reads_later(has_ended):
                self.read(fd, channel, has_ended)

    def read(self, fd: int, channel: Channel, has_ended: bool) -> None:
        """Gives the channel what its socket has. `has_ended`: the event said that nothing comes after it."""
        try:
            data = socket_calls.receive(fd)
        except OSError as error:
            channel.read_ended(error)
            return
        if data is None:
            return
        if not data:
            channel.read_ended(None)
            return
        if has_ended or len(data) == _RECEIVE_LIMIT:
            self._epoll.modify(fd, _EVENTS)
        channel.data_received(data)


def make_reader(loop: asyncio.AbstractEventLoop) -> SocketReader | None:
    """The reader of a server's sockets; None in interpreted modules."""
    return SocketReader(loop) if socket_calls.can_receive() else None
