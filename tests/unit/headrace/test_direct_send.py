"""What a compiled channel sends to the socket itself, and what is left to the transport. (The Python form leaves everything to it.)"""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from headrace.remoting import HandlerTable
from headrace.remoting.channel import Channel
from headrace.remoting.connection import make_channel
from headrace.remoting.deadlines import Deadlines
from headrace.remoting.endpoint import Endpoint
from support.wire import Wire

pytestmark = pytest.mark.usefixtures("turns_take_no_time")

FRAME = bytes([0, 0, 0, 4, 0, 0, 0, 0])


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
    wire = Wire(connected=ours)
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
    wire = Wire(connected=ours)
    channel.connection_made(wire)
    if end == "eof":
        channel.eof_received()
    else:
        channel.connection_lost(None)
    channel.write(FRAME)
    assert wire.writes == [FRAME] * (end == "eof"), "the transport knows whether it can still be sent"
    with pytest.raises(BlockingIOError):
        peer.recv(100)
