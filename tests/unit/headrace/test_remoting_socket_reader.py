"""A reader and the channels that it gives what their sockets receive: nothing is lost, and nothing comes to the wrong one."""

import asyncio
import socket
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

import pytest

from headrace.remoting import HandlerTable
from headrace.remoting.channel import Channel
from headrace.remoting.deadlines import Deadlines
from headrace.remoting.endpoint import Endpoint
from headrace.remoting.socket_reader import SocketReader, make_reader
from headrace.remoting.turns import Turns
from support.wire import Wire

pytestmark = pytest.mark.usefixtures("turns_take_no_time")

RECEIVE_LIMIT = 256 << 10
PLAIN = b"\0"
"""A first byte that begins no TLS."""


class Descriptor(Protocol):
    def fileno(self) -> int: ...


class Connected:
    """A socket as an incoming connection has it; a pair's has no addresses."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor.fileno()

    def setsockopt(self, *_: object) -> None:
        pass

    def getsockname(self) -> tuple[str, int]:
        return ("10.9.9.9", 1)


class Collector:
    """A frame handler that takes all bytes. `closes`: a channel that it closes when it is given some. `leaves`: how many bytes it does not take."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.taken = b""
        self.closes: Channel | None = None
        self.leaves = 0
        self.is_busy = False
        self.reason = ""
        self.begin_batch = self.end_batch = None

    def opened(self) -> None:
        pass

    def take(self, data: bytes, position: int) -> int:
        end = len(data) - self.leaves
        self.taken += data[position:end]
        if self.closes is not None:
            self.closes.abort("by the test")
        return end

    def resumed(self) -> None:
        pass

    def lost(self, reason: str) -> None:
        self.reason = reason


class WhenAsked:
    """What `Turns` needs of an event loop: calls what is due when it is asked to."""

    def __init__(self) -> None:
        self._due: list[Callable[[], object]] = []

    def call_soon(self, call: Callable[[], object]) -> None:
        self._due.append(call)

    def run(self) -> None:
        for call in self._due:
            call()
        self._due.clear()


class Link:
    """A connection of the reader's server, whose first byte its transport has read, and the peer's socket."""

    def __init__(self, endpoint: Endpoint, descriptor: Descriptor | None = None) -> None:
        self.socket, self.peer = socket.socketpair()
        self.wire = Wire(connected=cast(socket.socket, Connected(descriptor or self.socket)))
        self.channel = Channel(endpoint, Collector)
        self.channel.connection_made(self.wire)
        self.channel.data_received(PLAIN)

    @property
    def taken(self) -> bytes:
        taken: bytes = self.channel.handler.taken
        return taken[1:]

    def close(self) -> None:
        self.channel.connection_lost(None)
        self.socket.close()
        self.peer.close()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture
def reader(loop: asyncio.AbstractEventLoop) -> Iterator[SocketReader]:
    made = make_reader(loop)
    assert made is not None, "compile the hot modules (make compile)"
    yield made
    made.close()


@pytest.fixture
def turns_of_clients() -> WhenAsked:
    return WhenAsked()


@pytest.fixture
def endpoint(loop: asyncio.AbstractEventLoop, reader: SocketReader, turns_of_clients: WhenAsked) -> Endpoint:
    turns = Turns(cast(Any, turns_of_clients))
    return Endpoint(loop, HandlerTable(), Deadlines(loop), reader=reader, turns=turns)


@pytest.fixture
def links(endpoint: Endpoint) -> Iterator[list[Link]]:
    made = [Link(endpoint), Link(endpoint)]
    yield made
    for link in made:
        link.close()


def turn(loop: asyncio.AbstractEventLoop) -> None:
    """Two turns of the loop: what is readable was read."""
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))


def test_transport_reads_the_first_bytes_only(loop: asyncio.AbstractEventLoop, links: list[Link]) -> None:
    one, other = links
    assert one.wire.is_reading_paused
    one.peer.send(b"one")
    other.peer.send(b"other")
    turn(loop)
    one.peer.send(b" more")
    turn(loop)
    assert (one.taken, other.taken) == (b"one more", b"other")


def test_bytes_behind_a_full_buffer_are_read_though_no_more_arrive(
    loop: asyncio.AbstractEventLoop, links: list[Link]
) -> None:
    link = links[0]
    link.peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * RECEIVE_LIMIT)
    link.peer.setblocking(False)
    sent = link.peer.send(bytes(RECEIVE_LIMIT)) + link.peer.send(b"x" * 100)
    assert sent > RECEIVE_LIMIT
    turn(loop)
    turn(loop)
    assert len(link.taken) == sent


def test_paused_channel_is_given_nothing_until_it_resumes(loop: asyncio.AbstractEventLoop, links: list[Link]) -> None:
    link = links[0]
    link.channel.pause()
    link.channel.pause()
    link.peer.send(b"early")
    turn(loop)
    assert link.taken == b""
    link.channel.resume()
    link.channel.resume()
    turn(loop)
    assert link.taken == b"early"
    link.peer.send(b", late")
    turn(loop)
    assert (link.taken, link.wire.is_reading_paused) == (b"early, late", True)


class Ahead:
    """A channel of the same client that waits for its turn, too."""

    def take_turn(self) -> None:
        pass


def test_socket_is_not_read_before_the_turn_of_its_client(
    loop: asyncio.AbstractEventLoop, endpoint: Endpoint, turns_of_clients: WhenAsked, links: list[Link]
) -> None:
    assert endpoint.turns is not None
    one, other = links
    one.channel.usage.waiting.append(Ahead())
    one.peer.send(b"one")
    other.peer.send(b"other")
    turn(loop)
    assert (endpoint.turns.waits, one.taken, other.taken) == (2, b"", b"")
    one.peer.send(b" more")
    turn(loop)
    turns_of_clients.run()
    assert (one.taken, other.taken) == (b"one more", b"other")
    one.peer.send(b", later")
    turn(loop)
    assert (endpoint.turns.waits, one.taken) == (2, b"one more, later")


@pytest.mark.parametrize("ends_at_once", [True, False])
def test_stream_that_ends_before_the_turn_is_read_to_its_end(
    loop: asyncio.AbstractEventLoop, turns_of_clients: WhenAsked, links: list[Link], ends_at_once: bool
) -> None:
    link = links[0]
    link.channel.usage.waiting.append(Ahead())
    link.peer.send(b"last")
    if not ends_at_once:
        turn(loop)
    link.peer.shutdown(socket.SHUT_WR)
    turn(loop)
    assert (link.taken, link.wire.closing) == (b"", False)
    turns_of_clients.run()
    assert link.taken == b"last"
    turn(loop)
    assert (link.wire.closing, link.channel.close_reason) == (True, None)


def test_channel_that_is_paused_at_its_turn_is_read_when_it_resumes(
    loop: asyncio.AbstractEventLoop, turns_of_clients: WhenAsked, links: list[Link]
) -> None:
    link = links[0]
    link.channel.usage.waiting.append(Ahead())
    link.peer.send(b"early")
    turn(loop)
    link.channel.handler.is_busy = True
    link.channel.pause()
    turns_of_clients.run()
    turn(loop)
    assert link.taken == b""
    link.channel.handler.is_busy = False
    link.channel.resume()
    turn(loop)
    assert link.taken == b"early"


@pytest.mark.parametrize("by_transport", [True, False])
def test_channel_that_is_closed_before_its_turn_is_not_read(
    loop: asyncio.AbstractEventLoop, turns_of_clients: WhenAsked, links: list[Link], by_transport: bool
) -> None:
    """By then its descriptor may be another connection's."""
    link = links[0]
    link.channel.usage.waiting.append(Ahead())
    link.peer.send(b"bytes")
    turn(loop)
    if by_transport:
        link.wire.closing = True
    else:
        link.channel.abort("by the test")
    turns_of_clients.run()
    assert link.taken == b""


def test_rest_of_a_frame_is_read_though_its_client_waits(
    loop: asyncio.AbstractEventLoop, endpoint: Endpoint, links: list[Link]
) -> None:
    """What has come of it holds memory, and nothing is handled until it is complete."""
    assert endpoint.turns is not None
    link = links[0]
    link.channel.handler.leaves = 8
    link.peer.send((100).to_bytes(4, "big") + bytes(4))
    turn(loop)
    link.channel.usage.waiting.append(Ahead())
    link.peer.send(bytes(50))
    turn(loop)
    assert endpoint.turns.waits == 0
    with pytest.raises(BlockingIOError):
        link.socket.recv(1, socket.MSG_DONTWAIT)


def test_end_of_the_stream_closes_the_connection(loop: asyncio.AbstractEventLoop, links: list[Link]) -> None:
    link = links[0]
    link.peer.send(b"last")
    link.peer.shutdown(socket.SHUT_WR)
    turn(loop)
    turn(loop)
    assert (link.taken, link.wire.closing, link.channel.close_reason) == (b"last", True, None)


def test_reset_closes_the_connection_with_its_reason(loop: asyncio.AbstractEventLoop, links: list[Link]) -> None:
    link = links[0]
    link.socket.send(b"never read")
    link.peer.close()  # resets, because it has not read everything
    turn(loop)
    assert link.wire.closing
    link.channel.connection_lost(None)
    assert link.channel.handler.reason == "connection lost: [Errno 104] Connection reset by peer"


def test_channel_that_another_closes_in_the_same_turn_is_given_nothing(
    loop: asyncio.AbstractEventLoop, links: list[Link]
) -> None:
    one, other = links
    one.channel.handler.closes, other.channel.handler.closes = other.channel, one.channel
    for link in links:
        link.peer.send(b"bytes")
    turn(loop)
    assert sorted([one.taken, other.taken]) == [b"", b"bytes"]
    assert [one.wire.closing, other.wire.closing].count(True) == 1


def test_descriptor_of_a_socket_that_the_transport_closed_may_be_used_again(
    loop: asyncio.AbstractEventLoop, endpoint: Endpoint, links: list[Link]
) -> None:
    """A transport that fails to write closes its socket before it reports that the connection is lost."""
    former = links[0]
    number = former.socket.fileno()
    former.socket.close()
    latter = Link(endpoint)
    links.append(latter)
    assert latter.socket.fileno() == number
    former.channel.connection_lost(None)
    latter.peer.send(b"bytes")
    turn(loop)
    assert (former.taken, latter.taken) == (b"", b"bytes")


def test_transport_reads_on_where_the_kernel_refuses_to_watch(endpoint: Endpoint, links: list[Link]) -> None:
    with tempfile.TemporaryFile() as file:  # a set takes no files
        links.append(Link(endpoint, cast(Any, file)))
        assert not links[-1].wire.is_reading_paused


def test_nothing_is_read_after_the_reader_is_closed(
    loop: asyncio.AbstractEventLoop, reader: SocketReader, links: list[Link]
) -> None:
    link = links[0]
    reader.close()
    reader.close()
    link.peer.send(b"bytes")
    turn(loop)
    assert link.taken == b""
    link.channel.abort("by the test")
    assert link.wire.closing
