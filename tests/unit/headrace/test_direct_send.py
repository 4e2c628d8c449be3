"""What a compiled channel sends to the socket itself, and what is left to the transport. (The Python form leaves everything to it.)"""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.remoting import HandlerTable
from headrace.remoting.channel import Channel
from headrace.remoting.connection import make_channel
from headrace.remoting.deadlines import Deadlines
from headrace.remoting.endpoint import Endpoint

FRAME = bytes([0, 0, 0, 4, 0, 0, 0, 0])


class Wire(asyncio.Transport):
    """Keeps what is written, each write by itself; `unsent` bytes wait in it."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__({"peername": ("10.1.2.3", 40000), "socket": connected})
        self.writes: list[bytes] = []
        self.unsent = 0
        self.closing = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection's ends: ours, and the peer's, which never blocks."""
    ours, peer = socket.socketpair()
    with ours, peer:
        peer.setblocking(False)
        yield ours, peer


@pytest.fixture
def channel(sockets: tuple[socket.socket, socket.socket]) -> Iterator[Channel]:
    loop = asyncio.new_event_loop()
    yield make_channel(Endpoint(loop, HandlerTable(), Deadlines(loop)))
    loop.close()


def test_bytes_go_past_the_transport_only_while_it_has_nothing_to_send(
    channel: Channel, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, peer = sockets
    wire = Wire(ours)
    channel.connection_made(wire)
    channel.write(FRAME)
    assert (peer.recv(100), wire.writes) == (FRAME, [])
    large = FRAME + bytes(8 << 20)
    channel.write(large)
    sent = peer.recv(len(large))
    assert 0 < len(sent) < len(large)
    assert sent + wire.writes[0] == large, "the transport sends what the kernel did not take"
    wire.unsent = 1
    channel.write(FRAME)
    assert wire.writes[1:] == [FRAME], "nothing overtakes it, although there is room again"
    wire.unsent = 0
    channel.write(FRAME)
    assert (peer.recv(100), len(wire.writes)) == (FRAME, 2)
    channel.close("test")
    channel.write(FRAME)
    with pytest.raises(BlockingIOError):
        peer.recv(100)


@pytest.mark.parametrize("end", ["eof", "lost"])
def test_nothing_goes_past_the_transport_of_a_connection_that_ends(
    channel: Channel, sockets: tuple[socket.socket, socket.socket], end: str
) -> None:
    ours, peer = sockets
    wire = Wire(ours)
    channel.connection_made(wire)
    if end == "eof":
        channel.eof_received()
    else:
        channel.connection_lost(None)
    channel.write(FRAME)
    assert wire.writes == [FRAME] * (end == "eof"), "the transport knows whether it can still be sent"
    with pytest.raises(BlockingIOError):
        peer.recv(100)
