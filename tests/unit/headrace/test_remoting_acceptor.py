"""Connections are accepted several in a turn of the loop, and again after there were no descriptors left."""

import asyncio
import errno
import itertools
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import pytest

from headrace.remoting import HandlerTable, RemotingServer, acceptor
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
            turns, seen = 0, [0]
            while len(server.connections) < count:
                await asyncio.sleep(0)
                turns += 1
                seen.append(len(server.connections))
                assert turns < count
            assert max(later - earlier for earlier, later in itertools.pairwise(seen)) <= ACCEPTS_PER_TURN
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
    assert "Too many open files; raise the limit" in caplog.text


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
