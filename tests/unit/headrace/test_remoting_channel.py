"""A channel and the handler that it owns: what is handed over, in which order, and what waits."""

import asyncio
from collections.abc import Iterator

import pytest

from headrace.protocol.frame import frame_size
from headrace.remoting import HandlerTable
from headrace.remoting.channel import RECOUNT_S, Channel
from headrace.remoting.deadlines import Deadlines
from headrace.remoting.endpoint import Endpoint
from headrace.remoting.turns import Turns
from support.wire import Wire

pytestmark = pytest.mark.usefixtures("turns_take_no_time")

FRAME = bytes([0, 0, 0, 4, 0, 0, 0, 0])


class Recorder:
    """A frame handler that answers each frame with itself, until it is busy."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.calls: list[str] = []
        self.is_busy = False
        self.most = 1000
        self.fails_at_end = False

    def opened(self) -> None:
        self.calls.append(f"opened {self.channel.remote}")

    def begin_batch(self) -> None:
        self.calls.append("begin")

    def take(self, data: bytes, position: int) -> int:
        while len(data) - position >= len(FRAME) and self.channel.takes_frames():
            stop = position + frame_size(data, position)
            if stop > len(data):
                break
            self.calls.append("frame")
            self.channel.write(data[position:stop])
            self.most -= 1
            if not self.most:
                self.is_busy = True
                self.channel.pause()
            position = stop
        return position

    def end_batch(self) -> None:
        self.calls.append("end")
        if self.fails_at_end:
            raise RuntimeError("not published")

    def resumed(self) -> None:
        self.calls.append("resumed")

    def lost(self, reason: str) -> None:
        self.calls.append(f"lost {reason}")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture
def channel(loop: asyncio.AbstractEventLoop) -> Channel:
    return Channel(Endpoint(loop, HandlerTable(), Deadlines(loop)), Recorder)


@pytest.fixture
def wire(channel: Channel) -> Wire:
    made = Wire()
    channel.connection_made(made)
    return made


def test_frames_of_one_read_are_handled_as_one_batch_and_one_write(channel: Channel, wire: Wire) -> None:
    channel.data_received(FRAME * 3 + FRAME[:5])
    channel.data_received(FRAME[5:])
    batch = ["begin", "frame", "frame", "frame", "end"]
    assert channel.handler.calls == ["opened 10.1.2.3:40000", *batch, "begin", "frame", "end"]
    assert wire.writes == [FRAME * 3, FRAME]


def test_frames_wait_while_the_handler_is_busy(channel: Channel, wire: Wire) -> None:
    channel.handler.most = 2
    channel.data_received(FRAME * 5)
    assert (wire.writes, wire.is_reading_paused) == ([FRAME * 2], True)
    channel.resume()
    assert wire.is_reading_paused
    channel.handler.is_busy = False
    channel.resume()
    assert (wire.writes, wire.is_reading_paused) == ([FRAME * 2, FRAME * 3], False)


def test_incomplete_batch_writes_nothing(channel: Channel, wire: Wire) -> None:
    channel.handler.fails_at_end = True
    channel.data_received(FRAME)
    assert (wire.writes, wire.closing) == ([], True)


def test_handler_receives_the_reason_of_a_lost_connection(channel: Channel, wire: Wire) -> None:
    channel.close("stopping")
    channel.connection_lost(None)
    assert wire.closing
    assert channel.handler.calls[-1] == "lost stopping"


@pytest.fixture
def large() -> bytes:
    return bytes(4 << 20)


def turn(loop: asyncio.AbstractEventLoop) -> None:
    """Until what is to be counted again has been."""
    loop.run_until_complete(asyncio.sleep(2 * RECOUNT_S))


def test_large_data_is_held_as_a_whole_while_a_little_of_it_is_unsent(
    channel: Channel, wire: Wire, loop: asyncio.AbstractEventLoop, large: bytes
) -> None:
    """The kernel may have taken all but a few bytes, below the high-water mark: the transport keeps the whole object."""
    wire.unsent = 1
    channel.write(large)
    assert channel.held_bytes == len(large)
    channel.write(large)  # the first has been sent: only a byte is left
    assert channel.held_bytes == len(large)
    turn(loop)
    assert channel.held_bytes == len(large)
    channel.look(loop.time(), 1.0, 60.0)
    assert channel.held_bytes == len(large)
    wire.unsent = 0
    channel.look(loop.time(), 1.0, 60.0)
    assert channel.held_bytes == 0


def test_large_data_is_not_held_any_longer_soon_after_it_was_sent(
    channel: Channel, wire: Wire, loop: asyncio.AbstractEventLoop, large: bytes
) -> None:
    wire.unsent = 1
    channel.write(large)
    wire.unsent = 0
    turn(loop)
    assert channel.held_bytes == 0
    channel.write(large)
    assert channel.held_bytes == 0


def test_data_is_held_after_writing_resumes_until_its_last_byte_is_sent(
    channel: Channel, wire: Wire, loop: asyncio.AbstractEventLoop, large: bytes
) -> None:
    """A transport resumes below its low-water mark. A peer that reads for ever, but never all, is not counted more and more."""
    for _ in range(5):
        channel.pause_writing()
        wire.unsent = 100_000
        channel.write(large)
        assert channel.held_bytes <= 2 * len(large)
        wire.unsent = 1
        channel.resume_writing()
        assert channel.held_bytes == len(large)
    wire.unsent = 0
    turn(loop)
    assert channel.held_bytes == 0


def test_small_data_is_not_counted_while_it_is_below_the_high_water_mark(channel: Channel, wire: Wire) -> None:
    wire.unsent = 1_000
    channel.write(bytes(1_000))
    assert channel.held_bytes == 0


def test_frame_in_parts_waits_for_its_clients_turn_when_it_is_complete(loop: asyncio.AbstractEventLoop) -> None:
    turns = Turns(loop)
    endpoint = Endpoint(loop, HandlerTable(), Deadlines(loop), turns=turns)
    (channel, wire), (other, other_wire) = [
        (Channel(endpoint, Recorder), Wire(address)) for address in ("10.1.2.3", "10.1.2.4")
    ]
    channel.connection_made(wire)
    other.connection_made(other_wire)
    long = bytes([0, 0, 0, 24, 0, 0, 0, 0]) + bytes(range(20))

    def receive(data: bytes) -> None:
        other.data_received(FRAME)  # the loop's time is shared
        channel.data_received(data)

    receive(long[:10])
    in_front = object()
    channel.usage.waiting.append(in_front)
    receive(long[10:15])
    assert turns.waits == 0
    receive(long[15:] + FRAME + long[:7])
    assert turns.waits == 1
    assert (wire.writes, wire.is_reading_paused) == ([], True)
    channel.usage.waiting.remove(in_front)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert (wire.writes, wire.is_reading_paused) == ([long + FRAME], False)
    receive(long[7:])
    assert wire.writes == [long + FRAME, long]
    assert len(other_wire.writes) == 4
