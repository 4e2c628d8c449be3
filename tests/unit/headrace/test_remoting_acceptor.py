"""Connections are accepted several in a turn of the loop, and again after there were no descriptors left."""

import asyncio
import errno
import itertools
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest

from headrace.model.connection_limits import MAX_NEW_CONNECTIONS, ConnectionLimits
from headrace.remoting import HandlerTable, RemotingServer, acceptor
from headrace.remoting import turns as remoting_turns
from headrace.remoting.acceptor import ACCEPTS_PER_TURN
from support.loops import LOOPS, run_on, until


@pytest.fixture(params=sorted(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[Any]], Any]:
    return lambda main: run_on(request.param, main)


def test_connections_that_wait_are_accepted_many_in_a_turn_of_the_loop(run: Any) -> None:
    count = 3 * ACCEPTS_PER_TURN

    async def main() -> None:
        server = RemotingServer(HandlerTable())
        port = await server.listen("127.0.0.1", 0)
        with ExitStack() as stack:
            # The kernel takes them; the loop does not turn meanwhile.
            for _ in range(count):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            turns, accepted = 0, [0]
            while len(server.connections) < count:
                await asyncio.sleep(0)
                turns += 1
                accepted.append(server._usages.connections)
                assert turns < count
            assert max(later - earlier for earlier, later in itertools.pairwise(accepted)) <= ACCEPTS_PER_TURN
        await server.stop(1)

    run(main())


def is_closed(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock by which time is divided stands still, so that only what is charged counts, however slow the machine is."""
    monkeypatch.setattr(remoting_turns, "monotonic_ns", lambda: 1 << 40)
    monkeypatch.setattr(acceptor, "monotonic_ns", lambda: 1 << 40)


@asynccontextmanager
async def shared_server(stack: ExitStack) -> AsyncIterator[tuple[RemotingServer, Callable[[str], socket.socket]]]:
    """A server with a connection of 127.0.0.2, so that other clients share its loop; and what connects from an address."""
    server = RemotingServer(HandlerTable())
    port = await server.listen("127.0.0.1", 0)

    def connect(host: str) -> socket.socket:
        return stack.enter_context(socket.create_connection(("127.0.0.1", port), source_address=(host, 0)))

    connect("127.0.0.2")
    await until(lambda: len(server.connections) == 1)
    yield server, connect
    await server.stop(1)


@pytest.mark.usefixtures("stopped_clock")
def test_client_that_connects_without_end_waits_while_others_are_opened_at_once(run: Any) -> None:
    count = 50

    async def main() -> None:
        with ExitStack() as stack:
            async with shared_server(stack) as (server, connect):
                for host in ["127.0.0.3"] * count + ["127.0.0.4"]:
                    connect(host)

                def opened(host: str) -> int:
                    return sum(each.remote_address[0] == host for each in server.connections)

                for _ in range(1000):  # turns of the loop, no more than needed
                    if opened("127.0.0.4"):
                        break
                    await asyncio.sleep(0)
                assert opened("127.0.0.4")
                assert 0 < opened("127.0.0.3") < count // 2
                assert server.waits > 0
                await until(lambda: opened("127.0.0.3") == count)

    run(main())


def test_clients_with_time_left_are_opened_in_one_turn_however_slow_the_machine_is(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(1 << 40, acceptor.ACCEPT_NS)  # whatever is done between two looks at it takes that long
    monkeypatch.setattr(acceptor, "monotonic_ns", lambda: next(clock))

    async def main() -> None:
        with ExitStack() as stack:
            async with shared_server(stack) as (server, connect):
                monkeypatch.setattr(remoting_turns, "monotonic_ns", lambda: 1 << 40)
                for number in range(ACCEPTS_PER_TURN - 1):
                    connect(f"127.0.1.{number + 1}")
                before = server._usages.connections
                server._acceptors[0]._accept()
                assert server._usages.connections - before == ACCEPTS_PER_TURN - 1
                assert server.waits == 0

    run(main())


@pytest.mark.usefixtures("stopped_clock")
def test_client_without_time_is_accepted_a_little_in_a_turn(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    count = ACCEPTS_PER_TURN

    async def main() -> None:
        with ExitStack() as stack:
            async with shared_server(stack) as (server, connect):
                for _ in range(count):
                    connect("127.0.0.3")
                clock = itertools.count(1 << 40, acceptor.ACCEPT_NS // 4)
                monkeypatch.setattr(acceptor, "monotonic_ns", lambda: next(clock))
                server._acceptors[0]._accept()
                assert 0 < server.waits <= 5
                assert server._usages.connections < count

    run(main())


@pytest.mark.usefixtures("stopped_clock")
def test_stop_closes_connections_that_wait_for_their_turn(run: Any) -> None:
    async def main() -> None:
        with ExitStack() as stack:
            async with shared_server(stack) as (server, connect):
                peers = [connect("127.0.0.3") for _ in range(50)]
                server._acceptors[0]._accept()
                assert server.waits > 0
                await server.stop(1)
                assert all(is_closed(peer) for peer in peers)
                assert server._usages.connections == 0

    run(main())


def test_connections_that_are_reset_before_they_are_accepted_count_as_new_ones(run: Any) -> None:
    async def main() -> None:
        limits = ConnectionLimits(new_connections_per_minute=10)
        server = RemotingServer(HandlerTable(), limits=limits)
        port = await server.listen("127.0.0.1", 0)
        for _ in range(20):
            peer = socket.create_connection(("127.0.0.1", port))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        await until(lambda: server.faults.limits[MAX_NEW_CONNECTIONS] == 10)
        assert not server.connections
        assert server._usages.connections == 0
        await server.stop(1)

    run(main())


def test_connection_whose_handler_cannot_be_made_is_closed_and_forgotten(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no handler")

    async def main() -> None:
        monkeypatch.setattr(acceptor, "make_channel", fail)
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        server = RemotingServer(HandlerTable())
        port = await server.listen("127.0.0.1", 0)
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(peer, 1) == b""
            assert server._usages.connections == 0
        await server.stop(1)

    run(main())


def test_connections_are_accepted_once_there_are_descriptors_again(
    run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "RETRY_S", 0.01)
    real, refused = socket.socket.accept, 0

    def accept(listening: socket.socket) -> Any:
        nonlocal refused
        refused += 1
        if refused < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(listening)

    async def main() -> None:
        server = RemotingServer(HandlerTable())
        monkeypatch.setattr(socket.socket, "accept", accept)
        port = await server.listen("127.0.0.1", 0)
        with socket.create_connection(("127.0.0.1", port)):
            await until(lambda: len(server.connections) == 1)
        await server.stop(1)

    run(main())
    assert "Too many open files; raise the open file limit" in caplog.text


def test_stop_closes_connections_that_were_just_accepted(run: Any) -> None:
    async def main() -> None:
        server = RemotingServer(HandlerTable())
        port = await server.listen("127.0.0.1", 0)
        with socket.create_connection(("127.0.0.1", port)) as peer:
            server._acceptors[0]._accept()
            assert not server.connections
            await server.stop(1)
            assert peer.recv(1) == b""

    run(main())
