"""Clients that send, pull or hold more than a connection may: what they get and what it costs a running appliance."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from headrace import Message, Producer
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import RemotingCommand, create_request
from support.headrace_process import HeadraceProcess
from support.servers import wait_until

MIB = 1 << 20
TOPIC = "Much"
LIMIT_MIB = 96


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceProcess]:
    """An appliance for all tests here, with low limits per connection."""
    data = tmp_path_factory.mktemp("much") / "data"
    settings = ("--set", "mappedFileSizeCommitLog=67108864", "--set", f"maxConnectionBufferBytes={LIMIT_MIB * MIB}")
    with HeadraceProcess(data, *settings) as process:
        process.wait_ready()
        assert ask(process.ports[1], send(bytes(4 * MIB - 1))).code == 0
        assert process.pid_of("broker")
        wait_until(lambda: len(ask(process.ports[1], pull()).body) > MIB, 30, "a message that can be pulled")
        yield process
        assert "Traceback" not in process.log


def send(body: bytes, topic: str = TOPIC) -> bytes:
    fields = {
        "a": "PG", "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1700000000123", "h": "0", "i": "", "j": "0",
        "k": "false", "m": "false",
    }  # fmt: skip
    return create_request(310, fields, body).encode()


def pull(topic: str = TOPIC) -> bytes:
    fields = {
        "consumerGroup": "CG", "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip
    return create_request(11, fields).encode()


def answers(peer: socket.socket, count: int) -> list[RemotingCommand]:
    decoder, found = FrameDecoder(), list[RemotingCommand]()
    while len(found) < count:
        data = peer.recv(MIB)
        assert data, f"closed after {len(found)} answers"
        found += decoder.feed(data)
    return found


def ask(port: int, request: bytes) -> RemotingCommand:
    with socket.create_connection(("127.0.0.1", port), 30) as peer:
        peer.sendall(request)
        return answers(peer, 1)[0]


def private_bytes(process: psutil.Process) -> int:
    """Without the pages of the store, which are in the page cache: how many of them a process has mapped depends on the kernel."""
    memory = process.memory_info()
    return int(memory.rss - memory.shared)


@pytest.mark.slow
def test_very_many_concurrent_sends_all_succeed(appliance: HeadraceProcess) -> None:
    async def main() -> None:
        # The first step of 30,000 sends may keep the loop of a busy machine from its sockets for seconds.
        async with Producer("PG", f"127.0.0.1:{appliance.ports[0]}", send_timeout=30) as producer:
            sends = (producer.send(Message("Gathered", bytes(1024))) for _ in range(30_000))
            assert all(result.ok for result in await asyncio.gather(*sends))

    asyncio.run(main())


@pytest.mark.slow
def test_pipelined_pulls_are_all_answered_when_the_consumer_reads(appliance: HeadraceProcess) -> None:
    with socket.create_connection(("127.0.0.1", appliance.ports[1]), 30) as peer:
        peer.sendall(b"".join(pull() for _ in range(32)))
        found = answers(peer, 32)
    assert {answer.code for answer in found} == {0}
    assert min(len(answer.body) for answer in found) > 4 * MIB - 1


def taken_by_the_kernel() -> int:
    """How much of one write the kernel takes if the peer does not read: 2 to 4 MB, depending on what it knows of earlier connections."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        peer.connect(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            accepted.setblocking(False)
            return accepted.send(bytes(8 * MIB))


@pytest.mark.slow
@pytest.mark.parametrize("is_nearly_sent", [False, True], ids=["much unsent", "little unsent"])
def test_all_connections_together_stay_within_the_memory_limit(
    appliance: HeadraceProcess, is_nearly_sent: bool
) -> None:
    """Also if the kernel has taken each answer but for its last bytes: the whole answer is in memory until these are sent."""
    port = appliance.ports[1]
    broker = psutil.Process(appliance.pid_of("broker"))
    topic = TOPIC
    if is_nearly_sent:
        topic = "NearlySent"
        size = min(taken_by_the_kernel() + (24 << 10), 4 * MIB - 1024)
        assert ask(port, send(bytes(size), topic)).code == 0
        wait_until(lambda: len(ask(port, pull(topic)).body) > size, 30, "the message can be pulled")
    before = private_bytes(broker)
    half = send(bytes(15 * MIB))[:-10]
    with contextlib.ExitStack() as stack:
        pullers = [stack.enter_context(socket.socket()) for _ in range(40)]
        for peer in pullers:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            peer.connect(("127.0.0.1", port))
            peer.sendall(b"".join(pull(topic) for _ in range(12)))
        halves = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(40)]
        left = {peer: memoryview(half) for peer in halves}
        for peer in halves:
            peer.setblocking(False)
        most = before
        for _ in range(60):
            for peer, rest in left.items():
                with contextlib.suppress(OSError):
                    left[peer] = rest[peer.send(rest[:MIB]) :] if rest else rest
            most = max(most, private_bytes(broker))
            # Clients with small requests are served meanwhile.
            assert ask(port, send(b"small")).code == 0
    # One more frame while it is being handed on.
    assert (most - before) / MIB < LIMIT_MIB + 24


def test_connection_reset_logs_no_stack_trace(appliance: HeadraceProcess) -> None:
    for number in range(200):
        with socket.create_connection(("127.0.0.1", appliance.ports[number % 2]), 30) as peer:
            peer.sendall(send(b"x")[:40])
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert ask(appliance.ports[1], send(b"x")).code == 0
    assert "Traceback" not in appliance.log
    assert " error " not in appliance.log


def test_limit_below_the_minimum_is_refused_at_start(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", "--set", "maxConnectionBufferBytes=1") as process:
        assert process.wait_end() != 0
        assert "maxConnectionBufferBytes=1: expected at least" in process.err
