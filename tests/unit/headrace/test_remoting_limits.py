"""What connections hold, and for how long: peers that do not read, read slowly, send half frames, or reset; many requests of one client."""

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import SendRequestError
from headrace.model.connection_limits import MAX_CONNECTION_BUFFER_BYTES, OPTIONS, ConnectionLimits
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import RemotingCommand, create_request, response_to
from headrace.protocol.response_code import ResponseCode
from headrace.remoting import (
    Admission,
    Connection,
    HandlerTable,
    RemotingClient,
    RemotingServer,
    address_rate,
    buffer_budget,
)
from headrace.remoting.address_rate import AddressRate
from headrace.remoting.fault_log import FaultLog
from headrace.remoting.server_tls import ServerTls
from support.certificates import Certificates
from support.loops import LOOPS, run_on, until

pytestmark = pytest.mark.usefixtures("turns_take_no_time")

ECHO, LARGE, LATE, HUGE, SLOW = 1001, 1002, 1003, 1004, 1005
MIB = 1 << 20


@pytest.fixture(params=sorted(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[Any]], Any]:
    return lambda main: run_on(request.param, main)


class World:
    """A server, what became of its connections, and raw clients."""

    def __init__(self, **options: Any) -> None:
        table = HandlerTable()
        table.register(ECHO, lambda _, command: response_to(command, 0, body=command.body))
        table.register(LARGE, lambda _, command: response_to(command, 0, body=bytes(4 * MIB)))
        table.register(HUGE, lambda _, command: response_to(command, 0, body=bytes(15 * MIB)))
        table.register(LATE, self._hold)
        table.register(SLOW, self._wait)
        self.may_answer = asyncio.Event()
        self.late: list[tuple[Connection, RemotingCommand]] = []
        self.closed: list[str] = []
        self.server = RemotingServer(table, on_close=lambda _, reason: self.closed.append(reason), **options)
        self.port = 0
        self._sockets: list[socket.socket] = []

    def _hold(self, connection: Connection, command: RemotingCommand) -> None:
        self.late.append((connection, command))

    async def _wait(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        await self.may_answer.wait()
        return response_to(command, 0)

    async def is_hung_up_on(self, peer: socket.socket) -> bool:
        """Waits until the server closes the connection."""
        try:
            while await asyncio.get_running_loop().sock_recv(peer, MIB):
                pass
        except ConnectionError:
            pass
        return True

    async def connect(self, host: str = "127.0.0.1") -> socket.socket:
        """A client whose address is `host`."""
        peer = socket.socket()
        peer.bind((host, 0))
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        peer.setblocking(False)
        self._sockets.append(peer)
        await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", self.port))
        return peer

    async def send(self, peer: socket.socket, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(peer, data)

    async def answers(self, peer: socket.socket, count: int) -> list[RemotingCommand]:
        decoder, found = FrameDecoder(), list[RemotingCommand]()
        while len(found) < count:
            data = await asyncio.get_running_loop().sock_recv(peer, MIB)
            assert data, f"closed after {len(found)} answers: {self.closed}"
            found += decoder.feed(data)
        return found

    def close(self) -> None:
        for peer in self._sockets:
            peer.close()


@asynccontextmanager
async def world(**options: Any) -> AsyncIterator[World]:
    made = World(**options)
    made.port = await made.server.listen("127.0.0.1", 0)
    try:
        yield made
    finally:
        made.close()
        await made.server.stop(1)


def encoded(code: int, count: int = 1, body: bytes = b"") -> bytes:
    return b"".join(create_request(code, body=body).encode() for _ in range(count))


def test_client_receives_answers_while_its_own_requests_wait_to_be_sent(run: Any) -> None:
    async def main() -> None:
        async with world() as served:
            client, body = RemotingClient(), bytes(200_000)
            asked = (
                client.request(f"127.0.0.1:{served.port}", create_request(ECHO, body=body), 30_000) for _ in range(300)
            )
            answers = await asyncio.gather(*asked)
            assert all(answer.body == body for answer in answers)
            await client.close()

    run(main())


def test_peer_that_reads_receives_all_large_answers(run: Any) -> None:
    async def main() -> None:
        async with world() as served:
            peer = await served.connect()
            await served.send(peer, encoded(LARGE, 32))
            assert len(await served.answers(peer, 32)) == 32
            assert not served.closed

    run(main())


def test_answers_are_not_created_while_others_wait_for_their_peer(run: Any) -> None:
    made = 0

    def make(command: RemotingCommand) -> RemotingCommand:
        nonlocal made
        made += 1
        return response_to(command, 0, body=bytes(4 * MIB))

    async def main() -> None:
        async with world() as served:
            peer = await served.connect()
            await served.send(peer, encoded(LATE, 32))
            await until(lambda: len(served.late) == 32)
            for connection, command in served.late:
                connection.answer_in_turn(command, lambda command=command: make(command))  # type: ignore[misc]
            assert made < 5
            assert len(await served.answers(peer, 32)) == 32
            assert made == 32

    run(main())


def test_peer_that_writes_and_never_reads_is_disconnected_with_a_reason(run: Any) -> None:
    async def main() -> None:
        async with world(stall_grace_s=0.2) as served:
            peer = await served.connect()
            with pytest.raises(ConnectionError):
                await served.send(peer, encoded(ECHO, 5000, bytes(10_000)))
            await until(lambda: served.closed)
            assert served.closed[0].startswith("peer not reading")
            assert served.server.held_bytes == 0

    run(main())


def test_peer_that_reads_slowly_stays_connected(run: Any) -> None:
    async def main() -> None:
        async with world(stall_grace_s=0.4) as served:
            peer = await served.connect()
            await served.send(peer, encoded(LARGE, 2))
            loop, received = asyncio.get_running_loop(), 0
            end = loop.time() + 1.2
            while loop.time() < end:
                received += len(await loop.sock_recv(peer, 100_000))
                await asyncio.sleep(0.02)
            assert not served.closed
            assert 0 < received < 8 * MIB

    run(main())


def test_incomplete_frames_stay_within_the_limit_and_yield_to_others(
    run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(buffer_budget, "ROOM_GRACE_S", 0.3)
    whole = encoded(ECHO, body=bytes(15 * MIB))

    async def main() -> None:
        async with world(buffer_limit=64 * MIB, stall_grace_s=0.4) as served:
            most = 0

            async def watch() -> None:
                nonlocal most
                while True:
                    most = max(most, served.server.held_bytes)
                    await asyncio.sleep(0)

            watching = asyncio.ensure_future(watch())

            async def send_half() -> None:
                await served.send(await served.connect(), whole[:-10])

            halves = [asyncio.ensure_future(send_half()) for _ in range(12)]
            await until(lambda: served.server.held_bytes > 40 * MIB)
            small = await served.connect()
            await served.send(small, encoded(ECHO))
            assert len(await served.answers(small, 1)) == 1
            polite = await served.connect()
            sending = asyncio.ensure_future(served.send(polite, whole))
            assert len((await served.answers(polite, 1))[0].body) == 15 * MIB
            await sending
            watching.cancel()
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, watching, return_exceptions=True)
            assert most <= 64 * MIB
            assert any(reason.startswith("memory for connections is used up") for reason in served.closed)
            assert served.server.faults.limits[MAX_CONNECTION_BUFFER_BYTES] >= 1

    run(main())
    lines = [line.getMessage() for line in caplog.records if "maxConnectionBufferBytes" in line.getMessage()]
    assert len(lines) == 1


def test_peers_that_never_read_stay_within_the_limit_together(run: Any) -> None:
    async def main() -> None:
        async with world(buffer_limit=64 * MIB) as served:
            for _ in range(12):
                await served.send(await served.connect(), encoded(HUGE, 12))
            await until(lambda: served.server.held_bytes > 40 * MIB)
            for _ in range(20):
                assert served.server.held_bytes <= 64 * MIB
                await asyncio.sleep(0.005)

    run(main())


def test_frame_received_byte_by_byte_is_assembled_in_place(run: Any) -> None:
    frame = create_request(ECHO, body=b"body").encode()

    async def main() -> None:
        async with world() as served:
            peer = await served.connect()
            await until(lambda: served.server.connections)
            (connection,) = served.server.connections
            for byte in frame[:-1]:
                connection.channel.data_received(bytes([byte]))
            assert served.server.held_bytes == len(frame)
            connection.channel.data_received(frame[-1:])
            assert served.server.held_bytes == 0
            assert (await served.answers(peer, 1))[0].body == b"body"

    run(main())


def test_limit_that_leaves_no_room_for_large_frames_is_refused(run: Any) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="at least"):
            RemotingServer(HandlerTable(), buffer_limit=MIB)

    run(main())


def test_reset_connections_log_no_error(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reset = struct.pack("ii", 1, 0)

    async def main() -> None:
        async with world() as served:
            for _ in range(300):
                with socket.create_connection(("127.0.0.1", served.port)) as peer:
                    peer.sendall(encoded(ECHO)[:30])
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            other = await served.connect()
            await served.send(other, encoded(ECHO))
            assert len(await served.answers(other, 1)) == 1

    run(main())
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_failed_listener_closes_the_connection_and_logs_one_line(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: Connection) -> None:
        raise KeyError("of ours")

    async def main() -> None:
        async with world(on_open=refuse) as served:
            peer = await served.connect()
            assert await asyncio.get_running_loop().sock_recv(peer, 10) == b""

    run(main())
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.exc_info is None
    assert "KeyError" in line.getMessage()


def test_repeated_faults_are_counted_and_summarised(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = 0.0
    faults = FaultLog(lambda: now, 60)
    for port in range(1000):
        faults.closed(f"10.0.0.1:{port}", f"not a RocketMQ frame: length {port}", logging.WARNING)
    faults.closed("10.0.0.1:1", "peer not reading: 5 bytes unsent", logging.WARNING)
    assert len(caplog.records) == 31
    faults.sum_up()
    now = 61.0
    faults.sum_up()
    assert len(caplog.records) == 32
    said = caplog.records[-1].getMessage()
    assert "count=970" in said
    assert "last_remote=10.0.0.1:999" in said
    faults.closed("10.0.0.1:1", "not a RocketMQ frame: length 1", logging.WARNING)
    assert len(caplog.records) == 33


def test_number_of_fault_kinds_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    faults = FaultLog()
    for kind in range(1000):
        faults.closed("10.0.0.1:1", f"kind {kind}", logging.WARNING)
    assert len(caplog.records) < 100


def test_clients_accept_longer_headers_than_servers(run: Any) -> None:
    long = {"msgId": "x" * (1 << 20)}
    table = HandlerTable()
    table.register(ECHO, lambda _, command: response_to(command, 0, ext=long))

    async def main() -> None:
        server, client = RemotingServer(table), RemotingClient()
        address = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
        assert (await client.request(address, create_request(ECHO), 30_000)).ext == long
        with pytest.raises(SendRequestError):
            await client.request(address, create_request(ECHO, long), 30_000)
        await client.close()
        await server.stop(1)

    run(main())


Exceed = Callable[[World], Awaitable[None]]


async def connection_closed(served: World) -> None:
    assert await served.is_hung_up_on(await served.connect())


def closed_after(data: bytes) -> Exceed:
    async def exceed(served: World) -> None:
        peer = await served.connect()
        sending = asyncio.ensure_future(served.send(peer, data))
        assert await served.is_hung_up_on(peer)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    return exceed


async def not_read(served: World) -> None:
    """One request more than may be in progress: it is answered only after the first."""
    before = sum(served.server.faults.limits.values())
    await served.send(peer := await served.connect(), encoded(SLOW, 5))
    await until(lambda: sum(served.server.faults.limits.values()) > before)
    assert len(next(each for each in served.server.connections if each.tasks).tasks) == 4
    served.may_answer.set()
    assert len(await served.answers(peer, 5)) == 5
    served.may_answer.clear()
    peer.close()


async def busy(served: World) -> None:
    if not any(each.tasks for each in served.server.connections):
        await served.send(await served.connect(), encoded(SLOW))
        await until(lambda: any(each.tasks for each in served.server.connections))
    await served.send(peer := await served.connect(), encoded(SLOW))
    assert [answer.code for answer in await served.answers(peer, 1)] == [ResponseCode.SYSTEM_BUSY]
    peer.close()


HELLO = b"\x16"
"""The beginning of a TLS hello."""
EXCEEDED: dict[str, tuple[ConnectionLimits, bytes | None, Exceed]] = {
    "maxConnections": (ConnectionLimits(connections=1), b"", connection_closed),
    "maxConnectionsPerAddress": (ConnectionLimits(connections_per_address=1), b"", connection_closed),
    "maxNewConnectionsPerMinute": (ConnectionLimits(new_connections_per_minute=1), b"", connection_closed),
    "maxTlsHandshakes": (ConnectionLimits(handshakes=1), HELLO, closed_after(HELLO)),
    "maxTlsHandshakesPerMinute": (ConnectionLimits(handshakes_per_minute=1), HELLO, closed_after(HELLO)),
    "maxFrameSize": (ConnectionLimits(frame_size=MIB), None, closed_after(encoded(ECHO, body=bytes(MIB))[:MIB])),
    "maxHeaderSize": (
        ConnectionLimits(header_size=64 << 10),
        None,
        closed_after(create_request(ECHO, {"x": "y" * (64 << 10)}).encode()),
    ),
    "maxRequestsPerConnection": (ConnectionLimits(requests_per_connection=4), None, not_read),
    "maxRequestsPerAccount": (ConnectionLimits(requests_per_account=1), None, busy),
}
"""Of each limit: what a first connection sends (None: there is none), and what exceeds the limit then."""


def test_every_limit_of_connections_has_a_case_that_exceeds_it() -> None:
    tested_below = {MAX_CONNECTION_BUFFER_BYTES}  # test_incomplete_frames_…
    assert {*EXCEEDED, *tested_below} == set(OPTIONS)


@pytest.mark.parametrize("limit", EXCEEDED)
def test_exceeded_limit_is_counted_each_time_and_logged_once(
    run: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path, limit: str
) -> None:
    limits, first, exceed = EXCEEDED[limit]

    async def main() -> None:
        tls = ServerTls(Certificates(tmp_path).settings("permissive"))
        async with world(limits=limits, tls=tls) as served:
            if first is not None:
                await served.send(await served.connect(), first)
                await until(lambda: served.server.connections)
                if first:
                    await until(lambda: any(each.channel.is_encrypted for each in served.server.connections))
            for count in (1, 2, 3):
                await exceed(served)
                assert {name: reached for name, reached in served.server.faults.limits.items() if reached} == {
                    limit: count
                }
            served.may_answer.set()

    run(main())
    lines = [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING]
    assert [line.partition(" remote=")[0] for line in lines] == [f"limit reached limit={limit}"]


def test_connection_beyond_the_limit_of_its_address_is_closed(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with world(limits=ConnectionLimits(connections_per_address=2)) as served:
            peers = [await served.connect() for _ in range(2)]
            await until(lambda: len(served.server.connections) == 2)
            for _ in range(3):
                assert await served.is_hung_up_on(await served.connect())
            other = await served.connect("127.0.0.2")
            for peer in (*peers, other):
                await served.send(peer, encoded(ECHO))
                assert len(await served.answers(peer, 1)) == 1
            peers[0].close()
            await until(lambda: len(served.server.connections) == 2)
            await served.send(again := await served.connect(), encoded(ECHO))
            assert len(await served.answers(again, 1)) == 1
            assert served.server.faults.limits["maxConnectionsPerAddress"] == 3

    run(main())
    assert [line.getMessage().split(" remote=")[0] for line in caplog.records if line.levelno >= logging.WARNING] == [
        "limit reached limit=maxConnectionsPerAddress"
    ]


def test_address_that_opens_too_many_connections_in_a_minute_is_refused_and_others_are_served(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0

    async def main() -> None:
        nonlocal now
        async with world(limits=ConnectionLimits(new_connections_per_minute=3)) as served:
            served.server._new_connections._clock = lambda: now
            for _ in range(3):
                peer = await served.connect()
                await served.send(peer, encoded(ECHO))
                assert len(await served.answers(peer, 1)) == 1
                peer.close()
            for _ in range(2):
                assert await served.is_hung_up_on(await served.connect())
            await served.send(other := await served.connect("127.0.0.2"), encoded(ECHO))
            assert len(await served.answers(other, 1)) == 1
            assert served.server.faults.limits["maxNewConnectionsPerMinute"] == 2
            now = 60.0
            await served.send(again := await served.connect(), encoded(ECHO))
            assert len(await served.answers(again, 1)) == 1

    run(main())
    assert [line.getMessage().split(" remote=")[0] for line in caplog.records if line.levelno >= logging.WARNING] == [
        "limit reached limit=maxNewConnectionsPerMinute"
    ]


def test_rate_counts_no_more_addresses_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_rate, "MAX_ADDRESSES", 2)
    rate = AddressRate(1, lambda: 0.0)
    assert [rate.allows(name) for name in ("a", "b", "a", "c", "c")] == [True, True, False, True, True]


def test_frame_or_header_beyond_its_limit_closes_the_connection(run: Any) -> None:
    limits = ConnectionLimits(frame_size=2 * MIB, header_size=64 << 10)
    long_header = create_request(ECHO, {"x": "y" * (64 << 10)}).encode()
    cases = [("maxFrameSize", encoded(ECHO, body=bytes(2 * MIB))[:MIB]), ("maxHeaderSize", long_header)]

    async def main() -> None:
        async with world(limits=limits) as served:
            for limit, data in cases:
                peer = await served.connect()
                sending = asyncio.ensure_future(served.send(peer, data))
                assert await served.is_hung_up_on(peer)
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                assert served.server.faults.limits[limit] == 1
            await served.send(peer := await served.connect(), encoded(ECHO, body=bytes(2 * MIB - 1024)))
            assert len((await served.answers(peer, 1))[0].body) == 2 * MIB - 1024

    run(main())


def test_requests_of_one_address_beyond_the_limit_are_answered_with_system_busy(run: Any) -> None:
    async def main() -> None:
        async with world(limits=ConnectionLimits(requests_per_account=10)) as served:
            first, second = await served.connect(), await served.connect()
            for peer in (first, second):
                await served.send(peer, encoded(SLOW, 8))
            refused = await served.answers(second, 6)
            assert {answer.code for answer in refused} == {2}
            assert "maxRequestsPerAccount" in str(refused[0].remark)
            assert "address 127.0.0.1" in str(refused[0].remark)
            assert served.server.faults.limits["maxRequestsPerAccount"] == 6
            other = await served.connect("127.0.0.2")
            await served.send(other, encoded(ECHO))
            assert (await served.answers(other, 1))[0].code == 0
            first.close()
            # Its requests count until they have been cancelled, which is after the connection is gone.
            await until(lambda: max(one.channel.usage.requests for one in served.server.connections) == 2)
            await served.send(second, encoded(ECHO, 3))
            assert {answer.code for answer in await served.answers(second, 3)} == {0}
            served.may_answer.set()
            assert len(await served.answers(second, 2)) == 2

    run(main())


def test_requests_are_counted_for_the_account_as_soon_as_it_is_known(run: Any) -> None:
    def check(connection: Connection, command: RemotingCommand) -> None:
        connection.admission = Admission(command.ext["account"], check)

    def as_account(account: str, count: int) -> bytes:
        return b"".join(create_request(SLOW, {"account": account}).encode() for _ in range(count))

    async def main() -> None:
        limits = ConnectionLimits(requests_per_account=5)
        async with world(limits=limits, admit=lambda _: Admission(check=check)) as served:
            alice, also_alice, bob = [await served.connect() for _ in range(3)]
            await served.send(alice, as_account("alice", 3))
            await until(lambda: sum(len(each.tasks) for each in served.server.connections) == 3)
            # One more counts before its account is known.
            await served.send(also_alice, as_account("alice", 4))
            assert [answer.code for answer in await served.answers(also_alice, 2)] == [2, 2]
            await served.send(bob, as_account("bob", 5))
            await until(lambda: sum(len(each.tasks) for each in served.server.connections) == 10)
            served.may_answer.set()
            assert {answer.code for answer in await served.answers(bob, 5)} == {0}

    run(main())


def test_bodies_of_requests_in_progress_count_as_memory(run: Any) -> None:
    async def main() -> None:
        async with world() as served:
            peer = await served.connect()
            await served.send(peer, encoded(SLOW, 3, bytes(MIB)))
            await until(lambda: served.server.held_bytes == 3 * MIB)
            served.may_answer.set()
            await served.answers(peer, 3)
            assert served.server.held_bytes == 0
            served.may_answer.clear()
            await served.send(peer, encoded(SLOW, 1, bytes(MIB)))
            await until(lambda: served.server.held_bytes == MIB)
            peer.close()
            await until(lambda: served.server.held_bytes == 0)

    run(main())


def test_limit_is_counted_each_time_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    faults = FaultLog(lambda: now, 60, ["maxFilters", "maxConnections"])
    for port in range(1000):
        faults.limit_reached("maxConnections", f"10.0.0.1:{port}", "many")
    assert faults.limits == {"maxFilters": 0, "maxConnections": 1000}
    assert len(caplog.records) == 1
    now = 61.0
    faults.sum_up()
    assert len(caplog.records) == 2
    assert "count=999" in caplog.records[-1].getMessage()
