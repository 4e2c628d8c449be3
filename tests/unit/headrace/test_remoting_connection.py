import asyncio
import gc
import logging
import random
import socket
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace.errors import LocalProtocolError, RequestTimeout, SendRequestError
from headrace.model.connection_limits import ConnectionLimits
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.headers.name_server import PutKvConfigRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, create_request, response_to
from headrace.remoting import OPEN, Admission, Connection, HandlerTable, RemotingServer
from support.loops import LOOPS, run_on, until

ECHO, LATER, FAIL, SILENT, BIG, SLOW = 1001, 1002, 1003, 1004, 1005, 1006


@pytest.fixture(params=sorted(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[Any]], Any]:
    return lambda main: run_on(request.param, main)


def handlers() -> HandlerTable:
    table = HandlerTable()

    async def later(_: Connection, command: RemotingCommand) -> RemotingCommand:
        await asyncio.sleep(0)
        return response_to(command, 0, body=command.body)

    def fail(_: Connection, command: RemotingCommand) -> RemotingCommand:
        raise KeyError(command.opaque)

    async def slow(_: Connection, command: RemotingCommand) -> RemotingCommand:
        await asyncio.sleep(0.05)
        return response_to(command, 0)

    table.register(ECHO, lambda _, command: response_to(command, 0, body=command.body))
    table.register(LATER, later)
    table.register(FAIL, fail)
    table.register(SILENT, lambda _, _command: None)
    table.register(BIG, lambda _, command: response_to(command, 0, body=bytes(100_000)))
    table.register(SLOW, slow)
    return table


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[RemotingServer, int]]:
    server = RemotingServer(options.pop("handlers", None) or handlers(), **options)
    port = await server.listen("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        await server.stop(1)


class Peer:
    """A plain socket at the other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.decoder = FrameDecoder()
        self.commands: list[RemotingCommand] = []

    @classmethod
    async def connect(cls, port: int) -> "Peer":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def write(self, *commands: RemotingCommand) -> None:
        self.writer.write(b"".join(command.encode() for command in commands))

    async def read(self, count: int = 1) -> list[RemotingCommand]:
        while len(self.commands) < count:
            data = await self.reader.read(65536)
            assert data, "the server closed the connection"
            self.commands += self.decoder.feed(data)
        taken, self.commands = self.commands[:count], self.commands[count:]
        return taken

    async def ended(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass


@asynccontextmanager
async def peer_of(port: int) -> AsyncIterator[Peer]:
    peer = await Peer.connect(port)
    try:
        yield peer
    finally:
        await peer.close()


def test_request_is_answered_with_its_opaque_and_encoding(run: Any) -> None:
    async def main() -> None:
        async with serving() as (_, port), peer_of(port) as peer:
            for kind in SerializeType:
                request = create_request(ECHO, body=b"hello", serialize_type=kind)
                peer.write(request)
                (answer,) = await peer.read()
                assert (answer.opaque, answer.code, answer.body) == (request.opaque, 0, b"hello")
                assert answer.is_response
                assert answer.serialize_type == kind

    run(main())


def test_unknown_code_is_answered_with_code_3(run: Any) -> None:
    async def main() -> None:
        async with serving() as (_, port), peer_of(port) as peer:
            peer.write(create_request(4711))
            (answer,) = await peer.read()
            assert answer.code == 3
            assert answer.remark == " request type 4711 not supported"

    run(main())


def data_segments(peer: Any) -> int:
    """How many TCP segments with data its socket has received (tcpi_data_segs_in): one for each small write of the other side."""
    return int.from_bytes(
        peer.writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)[152:156], "little"
    )


@pytest.mark.usefixtures("turns_take_no_time")
def test_answers_of_one_read_are_sent_with_one_write(run: Any) -> None:
    async def main() -> None:
        async with serving() as (server, port), peer_of(port) as peer:
            await until(lambda: bool(server.connections))
            requests = [create_request(ECHO, body=b"x") for _ in range(50)]
            peer.write(*requests)
            answers = await peer.read(50)
            assert [answer.opaque for answer in answers] == [request.opaque for request in requests]
            assert data_segments(peer) == 1

    run(main())


def test_answers_of_all_sizes_arrive_in_order_whatever_the_socket_takes_at_once(run: Any) -> None:
    chance = random.Random(7)
    bodies = [chance.randbytes(chance.choice([1, 100, 5_000, 300_000])) for _ in range(300)]
    requests = [create_request(ECHO, body=body) for body in bodies]

    async def main() -> None:
        async with serving() as (server, port), peer_of(port) as peer:
            peer.write(*requests)
            await until(lambda: any(connection.is_held for connection in server.connections))
            answers = await peer.read(len(requests))
            assert [answer.opaque for answer in answers] == [request.opaque for request in requests]
            assert [answer.body for answer in answers] == bodies

    run(main())


def test_frame_is_accepted_however_it_is_split(run: Any) -> None:
    async def main() -> None:
        async with serving() as (_, port), peer_of(port) as peer:
            request = create_request(ECHO, {"a": "b"}, b"body")
            for byte in request.encode():
                peer.writer.write(bytes([byte]))
                await peer.writer.drain()
                await asyncio.sleep(0)
            (answer,) = await peer.read()
            assert answer.body == b"body"

    run(main())


def test_asynchronous_handler_does_not_delay_other_requests(run: Any) -> None:
    async def main() -> None:
        async with serving() as (_, port), peer_of(port) as peer:
            slow, fast = create_request(SLOW), create_request(ECHO)
            peer.write(slow, fast)
            first, second = await peer.read(2)
            assert [first.opaque, second.opaque] == [fast.opaque, slow.opaque]

    run(main())


def test_failed_handler_is_answered_in_json_with_code_1_and_counted(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> int:
        async with serving() as (server, port), peer_of(port) as peer:
            peer.write(create_request(FAIL, serialize_type=SerializeType.ROCKETMQ), create_request(ECHO))
            failed, echoed = await peer.read(2)
            assert failed.code == 1
            assert failed.remark is not None
            assert failed.remark.startswith("KeyError: ")
            assert failed.serialize_type == SerializeType.JSON
            assert echoed.code == 0
            return server.handler_errors

    assert run(main()) == 1
    assert "request failed" in caplog.text


def test_invalid_field_is_answered_with_code_1_and_not_counted_as_internal_error(run: Any) -> None:
    table = HandlerTable()

    def read(_: Connection, command: RemotingCommand) -> RemotingCommand:
        PutKvConfigRequestHeader.from_ext(command.ext_fields)
        return response_to(command, 0)

    table.register(100, read)

    async def main() -> None:
        async with serving(handlers=table) as (server, port), peer_of(port) as peer:
            peer.write(create_request(100, {"key": "k"}))
            (answer,) = await peer.read()
            assert answer.code == 1
            assert answer.remark is not None
            assert "namespace" in answer.remark
            assert server.handler_errors == 0

    run(main())


def test_handler_cancelled_before_it_begins_leaves_no_warning_behind(run: Any) -> None:
    begun: list[bool] = []
    transports: list[asyncio.Transport | None] = []
    table = HandlerTable()

    async def never(_: Connection, _command: RemotingCommand) -> None:
        begun.append(True)

    def lose(connection: Connection, _: RemotingCommand) -> None:
        transports.append(connection.channel._transport)
        connection.channel.connection_lost(None)

    table.register(2003, never)
    table.register(2004, lose)

    async def main() -> None:
        async with serving(handlers=table) as (server, port), peer_of(port) as peer:
            await until(lambda: server.connections)
            peer.write(create_request(2003), create_request(2004))
            await until(lambda: not server.connections)
            gc.collect()
            (transport,) = transports
            assert transport is not None
            transport.abort()  # as the loop has done when it reports a loss

    run(main())
    assert not begun


def test_requests_after_a_request_that_closes_the_connection_are_ignored(run: Any) -> None:
    handled: list[int] = []
    table = HandlerTable()

    def close(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        handled.append(command.code)
        connection.send(response_to(command, 0))
        connection.close("as asked")
        return response_to(command, 0)

    table.register(2005, close)

    async def main() -> None:
        async with serving(handlers=table) as (_, port), peer_of(port) as peer:
            peer.write(create_request(2005), create_request(2005))
            await peer.read()
            assert await peer.ended()

    run(main())
    assert handled == [2005]


def test_one_way_requests_are_never_answered(run: Any) -> None:
    async def main() -> None:
        async with serving() as (_, port), peer_of(port) as peer:
            for code in (ECHO, LATER, FAIL, 4711):
                peer.write(create_request(code).mark_oneway())
            last = create_request(ECHO)
            peer.write(last)
            (answer,) = await peer.read()
            assert answer.opaque == last.opaque

    run(main())


def test_answer_larger_than_a_frame_becomes_code_1(run: Any) -> None:
    table = handlers()
    table.register(2000, lambda _, command: response_to(command, 0, body=bytes(17 << 20)))

    async def main() -> None:
        async with serving(handlers=table) as (_, port), peer_of(port) as peer:
            peer.write(create_request(2000))
            (answer,) = await peer.read()
            assert answer.code == 1

    run(main())


def test_request_refused_by_the_admission_does_not_reach_the_handler(run: Any) -> None:
    def check(_: Connection, command: RemotingCommand) -> RemotingCommand | None:
        return response_to(command, 16, "no") if command.ext.get("AccessKey") != "good" else None

    async def main() -> None:
        admission = Admission("alice", check)
        async with serving(admit=lambda _: admission) as (server, port), peer_of(port) as peer:
            peer.write(create_request(ECHO), create_request(ECHO, {"AccessKey": "good"}))
            assert [answer.code for answer in await peer.read(2)] == [16, 0]
            (connection,) = server.connections
            assert connection.admission.account == "alice"

    run(main())


def test_changed_admission_applies_to_the_next_request(run: Any) -> None:
    def check(connection: Connection, command: RemotingCommand) -> RemotingCommand | None:
        connection.admission = OPEN
        return response_to(command, 16, "who are you?")

    async def main() -> None:
        async with serving(admit=lambda _: Admission(check=check)) as (_, port), peer_of(port) as peer:
            peer.write(create_request(ECHO), create_request(ECHO))
            assert [answer.code for answer in await peer.read(2)] == [16, 0]

    run(main())


def test_server_requests_its_client_and_unexpected_answers_are_dropped(run: Any) -> None:
    opened: list[Connection] = []

    async def main() -> None:
        async with serving(on_open=opened.append) as (_, port), peer_of(port) as peer:
            await until(lambda: opened)
            peer.write(response_to(create_request(ECHO), 0))
            question = create_request(220)
            asking = asyncio.ensure_future(opened[0].request(question, 60_000))
            (asked,) = await peer.read()
            assert (asked.code, asked.is_response) == (220, False)
            # The client's own request has the same opaque: bit 0 of flag tells them apart.
            own = create_request(ECHO)
            own.opaque = question.opaque
            peer.write(own, response_to(asked, 0, body=b"status"))
            assert (await asking).body == b"status"
            (echoed,) = await peer.read()
            assert echoed.opaque == question.opaque
            assert echoed.is_response

    run(main())


def test_request_without_an_answer_times_out_and_leaves_nothing_behind(run: Any) -> None:
    opened: list[Connection] = []

    async def main() -> None:
        async with serving(on_open=opened.append) as (_, port), peer_of(port):
            await until(lambda: opened)
            with pytest.raises(RequestTimeout, match="within 30 ms"):
                await opened[0].request(create_request(220), 30)
            assert not opened[0]._pending
            assert len(opened[0].deadlines) == 0

    run(main())


def test_lost_connection_fails_requests_and_cancels_running_handlers(run: Any) -> None:
    opened: list[Connection] = []
    closed: list[str] = []
    cancelled: list[bool] = []

    async def forever(_: Connection, _command: RemotingCommand) -> RemotingCommand | None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return None

    table = handlers()
    table.register(2001, forever)

    async def main() -> None:
        async with serving(handlers=table, on_open=opened.append, on_close=lambda _, reason: closed.append(reason)) as (
            _,
            port,
        ):
            peer = await Peer.connect(port)
            peer.write(create_request(2001))
            await until(lambda: opened and opened[0].tasks)
            asking = asyncio.ensure_future(opened[0].request(create_request(220), 60_000))
            await peer.read()
            await peer.close()
            with pytest.raises(SendRequestError):
                await asking
            await until(lambda: cancelled)
            assert opened[0].is_closed
            with pytest.raises(SendRequestError):
                await opened[0].request(create_request(220), 60_000)
            opened[0].send(create_request(220))  # dropped without a word

    run(main())
    assert closed == ["closed by the peer"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x00\x00\x00\x00\x00\x00\x00", "not a RocketMQ frame"),
        (b"\xff\xff\xff\xff", "not a RocketMQ frame"),
        (b"\x01\x00\x00\x00", "limit=maxFrameSize"),
        (b"\x00\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00", "not a RocketMQ frame"),
        (b"\x00\x00\x00\x08\x00\x00\xff\xff\x00\x00\x00\x00", "not a RocketMQ frame"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x04nope", "not a RocketMQ frame"),
        (b"GET / HTTP/1.1\r\n\r\n", "not a RocketMQ frame"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "TLS"),
    ],
)
def test_invalid_frames_close_the_connection_and_log_one_line(
    run: Any, caplog: pytest.LogCaptureFixture, data: bytes, reason: str
) -> None:
    caplog.set_level(logging.INFO, "headrace.remoting.connection")

    async def main() -> None:
        async with serving() as (server, port), peer_of(port) as other, peer_of(port) as peer:
            good = create_request(ECHO)
            peer.writer.write((good.encode() if data[0] != 0x16 else b"") + data + data)
            if data[0] != 0x16:
                (answer,) = await peer.read()
                assert answer.opaque == good.opaque
            assert await peer.ended()
            other.write(create_request(ECHO))
            await other.read()
            assert len(server.connections) == 1

    run(main())
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 1
    assert reason in lines[0]


def test_random_bytes_affect_neither_the_server_nor_other_connections(run: Any) -> None:
    chosen = random.Random(4)
    frame = create_request(ECHO, {"topic": "T", "queue": "3"}, b"body").encode()

    def nasty() -> bytes:
        kind = chosen.randrange(4)
        if kind == 0:
            return chosen.randbytes(chosen.randrange(1, 300))
        if kind == 1:
            return frame[: chosen.randrange(1, len(frame))]
        if kind == 2:
            return chosen.randrange(2**32).to_bytes(4, "big") + chosen.randbytes(40)
        broken = bytearray(frame)
        for _ in range(chosen.randrange(1, 4)):
            broken[chosen.randrange(4, len(broken))] = chosen.randrange(256)
        return bytes(broken)

    async def main() -> None:
        async with serving() as (server, port), peer_of(port) as good:
            for _ in range(60):
                peer = await Peer.connect(port)
                peer.writer.write(nasty())
                good.write(create_request(ECHO))
                assert (await good.read())[0].code == 0
                await peer.close()
            await until(lambda: len(server.connections) == 1)
            assert server.handler_errors == 0

    run(main())


def test_reading_pauses_while_the_peer_does_not_read_and_nothing_is_lost(run: Any) -> None:
    handled: list[int] = []
    table = HandlerTable()

    def big(_: Connection, command: RemotingCommand) -> RemotingCommand:
        handled.append(command.opaque)
        return response_to(command, 0, body=bytes(100_000))

    table.register(BIG, big)

    async def main() -> None:
        async with serving(handlers=table) as (server, port):
            loop = asyncio.get_running_loop()
            peer = socket.socket()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            peer.setblocking(False)
            await loop.sock_connect(peer, ("127.0.0.1", port))
            requests = [create_request(BIG) for _ in range(400)]
            await loop.sock_sendall(peer, b"".join(request.encode() for request in requests))
            await until(lambda: handled and next(iter(server.connections)).is_held)
            (connection,) = server.connections
            before = len(handled)
            assert before < 400
            waiting = connection.channel._transport
            assert waiting is not None
            assert waiting.get_write_buffer_size() < 4 << 20
            decoder = FrameDecoder()
            answers: list[RemotingCommand] = []
            while len(answers) < 400:
                answers += decoder.feed(await loop.sock_recv(peer, 1 << 20))
            assert [answer.opaque for answer in answers] == [request.opaque for request in requests]
            peer.close()

    run(main())


def test_peer_that_never_reads_is_disconnected_after_the_grace_period(run: Any) -> None:
    closed: list[str] = []

    async def main() -> None:
        listening = serving(on_close=lambda _, reason: closed.append(reason), stall_grace_s=0.1)
        async with listening as (server, port), peer_of(port) as peer:
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: server.connections)
            (connection,) = server.connections
            for _ in range(200):
                connection.send_oneway(create_request(40, body=bytes(100_000)))
                await asyncio.sleep(0)
            await until(lambda: closed)
            assert "peer not reading" in closed[0]

    run(main())


def test_request_to_a_peer_that_does_not_read_times_out(run: Any) -> None:
    async def main() -> None:
        async with serving() as (server, port), peer_of(port) as peer:
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: server.connections)
            (connection,) = server.connections
            while not connection.is_held:
                connection.send_oneway(create_request(40, body=bytes(1_000_000)))
                await asyncio.sleep(0)
            with pytest.raises(RequestTimeout, match="did not read"):
                await connection.request(create_request(220), 30)

    run(main())


def test_opaque_cannot_be_used_by_two_requests_at_once(run: Any) -> None:
    async def main() -> None:
        async with serving() as (server, port), peer_of(port) as peer:
            await until(lambda: server.connections)
            (connection,) = server.connections
            question = create_request(220)
            first = asyncio.ensure_future(connection.request(question, 60_000))
            (asked,) = await peer.read()
            with pytest.raises(LocalProtocolError):
                await connection.request(question, 60_000)
            peer.write(response_to(asked, 0))
            await first

    run(main())


def test_more_requests_than_the_admission_allows_wait_in_the_socket(run: Any) -> None:
    at_work = most = 0
    table = HandlerTable()

    async def work(_: Connection, command: RemotingCommand) -> RemotingCommand:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0)
        at_work -= 1
        return response_to(command, 0)

    table.register(2002, work)

    async def main() -> None:
        few = ConnectionLimits(requests_per_connection=8)
        async with serving(handlers=table, limits=few) as (_, port), peer_of(port) as peer:
            requests = [create_request(2002) for _ in range(100)]
            peer.write(*requests)
            answers = await peer.read(100)
            assert {answer.opaque for answer in answers} == {request.opaque for request in requests}

    run(main())
    assert most <= 8


@pytest.mark.slow
def test_idle_connections_are_closed_and_busy_ones_are_not(run: Any) -> None:
    async def longest_pause() -> float:
        """One try; for how long the busy one was silent at most, since the machine stood still."""
        closed: list[str] = []
        listening = serving(idle_timeout_s=1.0, on_close=lambda _, reason: closed.append(reason))
        async with listening as (server, port), peer_of(port) as idle, peer_of(port) as busy:
            clock = asyncio.get_running_loop().time
            longest, last = 0.0, clock()
            while not closed and longest < 0.9:
                busy.write(create_request(ECHO))
                await busy.read()
                await asyncio.sleep(0.01)
                longest, last = max(longest, clock() - last), clock()
            if longest < 0.9:
                assert closed == ["idle for 1 s"]
                assert await idle.ended()
                assert len(server.connections) == 1
            return longest

    async def main() -> None:
        while await longest_pause() >= 0.9:
            pass

    run(main())


def test_server_refuses_connections_above_its_limit(run: Any) -> None:
    async def main() -> None:
        async with (
            serving(limits=ConnectionLimits(connections=2)) as (_, port),
            peer_of(port) as first,
            peer_of(port) as second,
        ):
            for peer in (first, second):
                peer.write(create_request(ECHO))
                await peer.read()
            async with peer_of(port) as third:
                assert await third.ended()
            first.write(create_request(ECHO))
            await first.read()

    run(main())


def test_each_port_can_have_its_own_handler_table(run: Any) -> None:
    other = HandlerTable()

    async def main() -> None:
        async with serving() as (server, port):
            second = await server.listen("127.0.0.1", 0, other)
            async with peer_of(port) as one, peer_of(second) as two:
                for peer in (one, two):
                    peer.write(create_request(ECHO))
                assert ((await one.read())[0].code, (await two.read())[0].code) == (0, 3)
                assert len(server.connections) == 2

    run(main())


def test_stop_waits_for_running_requests(run: Any) -> None:
    async def main() -> None:
        server = RemotingServer(handlers())
        port = await server.listen("127.0.0.1", 0)
        async with peer_of(port) as peer:
            peer.write(create_request(SLOW))
            await until(lambda: any(connection.tasks for connection in server.connections))
            stopping = asyncio.ensure_future(server.stop(5))
            (answer,) = await peer.read()
            assert answer.code == 0
            assert await peer.ended()
            await stopping
            assert not server.connections
            with pytest.raises(OSError):
                await Peer.connect(port)

    run(main())


def test_port_in_use_raises_os_error(run: Any) -> None:
    async def main() -> None:
        async with serving() as (server, port):
            with pytest.raises(OSError):
                await server.listen("127.0.0.1", port)

    run(main())


def test_nagle_algorithm_is_disabled(run: Any) -> None:
    async def main() -> None:
        async with serving() as (server, port), peer_of(port):
            await until(lambda: server.connections)
            (connection,) = server.connections
            assert connection.channel._transport is not None
            peer = connection.channel._transport.get_extra_info("socket")
            assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(main())


@pytest.mark.parametrize(("source", "is_set"), [("127.0.0.1", True), ("127.0.0.2", False)])
def test_system_chooses_the_congestion_control_unless_the_peer_has_the_same_address(
    run: Any, source: str, is_set: bool
) -> None:
    async def main() -> None:
        async with serving() as (server, port):
            with socket.create_connection(("127.0.0.1", port), source_address=(source, 0)) as peer:
                await until(lambda: server.connections)
                (connection,) = server.connections
                assert connection.channel._transport is not None
                ours = connection.channel._transport.get_extra_info("socket")
                chosen = ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
                by_system = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
                assert chosen.rstrip(b"\0") == (b"reno" if is_set else by_system.rstrip(b"\0"))

    run(main())


def test_connection_has_remote_address_and_times(run: Any) -> None:
    async def main() -> None:
        async with serving() as (server, port), peer_of(port) as peer:
            await until(lambda: server.connections)
            (connection,) = server.connections
            address, local = peer.writer.get_extra_info("sockname")
            assert connection.remote_address == (address, local)
            assert connection.remote == f"{address}:{local}"
            assert abs(connection.last_active_ms - connection.opened_at_ms) < 5000

    run(main())


@pytest.mark.slow
def test_idle_connection_uses_no_task_and_little_memory(run: Any) -> None:
    count = 400

    async def main() -> int:
        async with serving() as (server, port):
            tracemalloc.start()
            sockets = []
            loop = asyncio.get_running_loop()
            request = create_request(ECHO, body=bytes(2000)).encode()
            for _ in range(count):
                peer = socket.socket()
                peer.setblocking(False)
                await loop.sock_connect(peer, ("127.0.0.1", port))
                await loop.sock_sendall(peer, request)
                sockets.append(peer)
            await until(lambda: len(server.connections) == count)
            for peer in sockets:
                assert await loop.sock_recv(peer, 4096)
            tasks = len(asyncio.all_tasks())
            ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/headrace/*")])
            tracemalloc.stop()
            for peer in sockets:
                peer.close()
            assert tasks == 1
            return sum(statistic.size for statistic in ours.statistics("filename"))

    assert run(main()) / count < 4000
