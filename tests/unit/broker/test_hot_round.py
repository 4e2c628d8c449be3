"""Sends that arrive in one turn of the event loop are published, rung and synced together, whatever connection they came by."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.offset_waiters import OffsetWaiters
from broker.sending.hot_send import COMPILED
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from ipc.publish.flush import FlushPublisher
from ipc.publish.ha import HaPublisher
from ipc.role_context import RoleContext
from support.python_calls import PythonCalls
from support.small_broker import Peer, SmallBroker, send_fields

MakeBroker = Callable[..., SmallBroker]

pytestmark = pytest.mark.skipif(not COMPILED, reason="without a compiler all sends take the plain path")

CONNECTIONS = 8


@pytest.fixture
def synced(make_broker: MakeBroker) -> SmallBroker:
    broker = make_broker(store={"flush_disk_type": "SYNC_FLUSH"})
    broker.topic()
    return broker


def send(number: int = 1, **fields: Any) -> bytes:
    ext = {key: str(value) for key, value in send_fields(**fields).items()}
    return RemotingCommand(
        RequestCode.SEND_MESSAGE_V2, version=409, opaque=number, ext_fields=ext, body=b"x" * 100
    ).encode()


def connect(broker: SmallBroker, count: int = CONNECTIONS) -> list[Peer]:
    broker.topic()
    return [broker.connect_hot(40000 + number) for number in range(count)]


def one_turn(broker: SmallBroker, clients: list[Peer], data: bytes) -> int:
    """Each client's bytes are read in the same turn of the loop. Returns `wrote_offset` directly after the last read."""
    offsets = []

    async def within() -> None:
        for client in clients:
            client._channel.data_received(data)
        offsets.append(broker.control.wrote_offset)
        await asyncio.sleep(0)

    broker.loop.run_until_complete(within())
    return offsets[0]


def flush(broker: SmallBroker, physical_offset: int) -> None:
    FlushPublisher(broker.control).flushed(physical_offset, 1)
    broker.run(broker.gate.release)


def codes(clients: list[Peer]) -> list[list[int]]:
    return [[answer.code for answer in client.received()] for client in clients]


def test_reads_of_one_turn_are_published_and_rung_once(broker: SmallBroker) -> None:
    clients = connect(broker)
    assert one_turn(broker, clients, send()) == 0
    assert (broker.rings, len(broker.records())) == (1, CONNECTIONS)
    assert codes(clients) == [[ResponseCode.SUCCESS]] * CONNECTIONS


def test_next_turn_is_published_by_itself(broker: SmallBroker) -> None:
    clients = connect(broker)
    one_turn(broker, clients, send())
    first = broker.control.wrote_offset
    assert one_turn(broker, clients, send(2)) == first
    assert (broker.rings, broker.control.wrote_offset) == (2, 2 * first)


def test_room_for_the_next_turn_is_made_after_this_one(make_broker: MakeBroker) -> None:
    broker = make_broker(store={"mapped_file_size_commit_log": 1 << 20})
    clients = connect(broker, 1)
    for _ in range(80):
        one_turn(broker, clients, send() * 20)
        assert broker.control.append_limit - broker.control.wrote_offset >= 64 << 10
    assert broker.control.wrote_offset > 256 << 10


def test_no_room_is_made_while_a_sync_is_awaited(make_broker: MakeBroker) -> None:
    broker = make_broker(store={"mapped_file_size_commit_log": 1 << 20, "flush_disk_type": "SYNC_FLUSH"})
    clients = connect(broker, 1)
    left = []
    for _ in range(80):
        one_turn(broker, clients, send() * 20)
        left.append(broker.control.append_limit - broker.control.wrote_offset)
        flush(broker, broker.control.wrote_offset)
    assert min(left) < 64 << 10 < max(left)


def test_answers_of_one_turn_wait_for_one_sync(synced: SmallBroker) -> None:
    waits: list[None] = []
    synced.gate._on_wait = lambda: waits.append(None)
    clients = connect(synced)
    one_turn(synced, clients, send() + send(2))
    assert (synced.rings, len(waits)) == (1, 1)
    assert [client.connection.channel.usage.requests for client in clients[:1]] == [2 * CONNECTIONS]
    for physical_offset in (0, synced.control.wrote_offset - 1):
        flush(synced, physical_offset)
        assert codes(clients) == [[]] * CONNECTIONS
    flush(synced, synced.control.wrote_offset)
    assert codes(clients) == [[ResponseCode.SUCCESS] * 2] * CONNECTIONS
    assert clients[0].connection.channel.usage.requests == 0


def test_messages_that_do_not_wait_are_answered_without_a_sync(synced: SmallBroker) -> None:
    clients = connect(synced, 2)
    one_turn(synced, clients, send(i="WAIT\x01false"))
    assert codes(clients) == [[ResponseCode.SUCCESS]] * 2


def test_every_answer_of_a_turn_tells_that_the_disk_was_late(synced: SmallBroker) -> None:
    clients = connect(synced)
    one_turn(synced, clients, send())
    synced.now += 60
    synced.run(synced.gate.release)
    assert codes(clients) == [[ResponseCode.FLUSH_DISK_TIMEOUT]] * CONNECTIONS


def test_lost_connection_does_not_keep_answers_from_the_others(synced: SmallBroker) -> None:
    clients = connect(synced)
    one_turn(synced, clients, send())
    clients[3].close()
    flush(synced, synced.control.wrote_offset)
    assert codes(clients[:3] + clients[4:]) == [[ResponseCode.SUCCESS]] * (CONNECTIONS - 1)


def test_sends_before_a_bad_frame_are_answered_before_the_connection_is_closed(broker: SmallBroker) -> None:
    (client,) = connect(broker, 1)
    one_turn(broker, [client], send() + b"\x7f\xff\xff\xff\x00\x00\x00\x00")
    assert client.is_closed
    assert codes([client]) == [[ResponseCode.SUCCESS]]


def test_turn_that_is_ended_early_is_not_ended_twice(broker: SmallBroker) -> None:
    clients = connect(broker)

    async def within() -> None:
        for client in clients:
            client._channel.data_received(send())
        broker.hot_round.end()
        assert codes(clients) == [[ResponseCode.SUCCESS]] * CONNECTIONS
        await asyncio.sleep(0)

    broker.loop.run_until_complete(within())
    assert broker.rings == 1
    assert codes(clients) == [[]] * CONNECTIONS


@pytest.mark.parametrize(("flush_disk_type", "parts"), [("ASYNC_FLUSH", 2), ("SYNC_FLUSH", 1)])
def test_turn_is_published_in_parts_for_a_slave(flush_disk_type: str, parts: int, make_broker: MakeBroker) -> None:
    """The slave copies one part while the next is appended; a disk would need a sync for each."""
    broker = make_broker(store={"flush_disk_type": flush_disk_type, "broker_role": "SYNC_MASTER"})
    HaPublisher(broker.control).slave_count(1)
    clients = connect(broker)
    published = one_turn(broker, clients, b"".join(map(send, range(10))))  # four reads are a part
    end = broker.control.wrote_offset
    assert (broker.rings, published) == (parts, 0 if parts == 1 else end)
    flush(broker, end)
    assert codes(clients) == [[]] * CONNECTIONS
    HaPublisher(broker.control).push2slave_max_offset(end)
    broker.run(broker.gate.release)
    assert codes(clients) == [[ResponseCode.SUCCESS] * 10] * CONNECTIONS


def calls_of(broker: SmallBroker, waiters: OffsetWaiters, clients: list[Peer], data: bytes) -> Counter[str]:
    """Which Python functions of the product are called for one turn, until all its sends are answered after a ring of flush."""
    calls = PythonCalls()

    async def within() -> None:
        with calls:
            for client in clients:
                client._channel.data_received(data)
            await asyncio.sleep(0)
        FlushPublisher(broker.control).flushed(broker.control.wrote_offset, 1)
        with calls:
            waiters.wakeups.look()

    broker.loop.run_until_complete(within())
    assert all(set(answered) == {ResponseCode.SUCCESS} for answered in codes(clients)), calls.counts
    return calls.counts


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_nothing_on_the_hot_path_is_interpreted(flush_disk_type: str, make_broker: MakeBroker, tmp_path: Path) -> None:
    """Python calls would be most of a read's processor time, and are the same on every machine. A larger number than 0 needs a reason."""
    broker = make_broker(store={"flush_disk_type": flush_disk_type})
    stop_fd = os.open(tmp_path, os.O_RDONLY)
    context = RoleContext("broker", broker.instance, broker.instance.bells["broker"], stop_fd)
    waiters = OffsetWaiters(context, broker.instance.queue_table())
    waiters.join(broker.appender)
    broker.gate._on_wait = waiters.ask
    clients = connect(broker)
    calls_of(broker, waiters, clients, send())
    assert not calls_of(broker, waiters, clients[:1], b"".join(map(send, range(32))))
    assert not calls_of(broker, waiters, clients, send())
    os.close(stop_fd)
