"""TLS of listeners: which clients are served, what ends a handshake, and what passes through the layer."""

import asyncio
import contextlib
import itertools
import logging
import random
import socket
import ssl
import stat
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from appliance.certificates import make_self_made
from headrace.errors import ConfigError, ConnectError, RemotingError
from headrace.model.connection_limits import ConnectionLimits
from headrace.model.tls_settings import TlsSettings, parse_tls_settings
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import RemotingCommand, create_request, response_to
from headrace.remoting import (
    Connection,
    HandlerTable,
    RemotingClient,
    RemotingServer,
    channel,
    server_tls,
    tls_context,
    tls_layer,
    turns,
)
from headrace.remoting.server_tls import ServerTls
from headrace.remoting.tls_context import server_context
from headrace.remoting.tls_layer import TlsLayer, subject_of
from support.certificates import Certificates, trusting
from support.loops import LOOPS, run_on, until

ECHO, WHO, BIG = 1001, 1002, 1003
MIB = 1 << 20


@pytest.fixture(params=sorted(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[Any]], Any]:
    return lambda main: run_on(request.param, main)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def handlers() -> HandlerTable:
    def who(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        return response_to(command, 0, str(connection.channel.peer_certificate))

    table = HandlerTable()
    table.register(ECHO, lambda _, command: response_to(command, 0, body=command.body))
    table.register(WHO, who)
    table.register(BIG, lambda _, command: response_to(command, 0, body=bytes(MIB)))
    return table


@asynccontextmanager
async def serving(settings: TlsSettings, **options: Any) -> AsyncIterator[tuple[RemotingServer, int]]:
    server = RemotingServer(handlers(), tls=ServerTls(settings, make_self_made), **options)
    port = await server.listen("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        await server.stop(1)


class Peer:
    """A stream to the server, plain or TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.decoder = FrameDecoder()
        self.commands: list[RemotingCommand] = []

    def write(self, *commands: RemotingCommand) -> None:
        self.writer.write(b"".join(command.encode() for command in commands))

    async def read(self, count: int = 1) -> list[RemotingCommand]:
        while len(self.commands) < count:
            data = await self.reader.read(MIB)
            if not data:
                raise ConnectionResetError
            self.commands += self.decoder.feed(data)
        taken, self.commands = self.commands[:count], self.commands[count:]
        return taken

    async def ask(self, code: int, body: bytes = b"") -> RemotingCommand:
        self.write(create_request(code, body=body))
        return (await self.read())[0]

    async def ended(self) -> bytes:
        """All bytes until the server closed the connection."""
        data = b""
        try:
            while piece := await self.reader.read(65536):
                data += piece
        except ConnectionError:
            pass
        return data


@asynccontextmanager
async def peer_of(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            pass


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def hello() -> bytes:
    """What a client sends first."""
    outgoing = ssl.MemoryBIO()
    client = trusting().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


# -- limits ---------------------------------------------------------------------------------------------------------------


def test_handshakes_in_progress_of_one_address_are_limited(run: Any, certificates: Certificates) -> None:
    async def main() -> None:
        limits = ConnectionLimits(handshakes=2)
        async with serving(certificates.settings("permissive"), limits=limits) as (server, port):
            async with peer_of(port) as one, peer_of(port) as two, peer_of(port) as three:
                for peer in (one, two):
                    peer.writer.write(hello())
                    await peer.reader.readexactly(1)
                three.writer.write(hello())
                assert await three.ended() == b""
                assert server.faults.limits["maxTlsHandshakes"] == 1
            await until(lambda: not server.connections)
            for _ in range(3):
                async with peer_of(port, trusting()) as peer:
                    assert (await peer.ask(ECHO)).code == 0

    run(main())


def test_handshakes_of_one_address_in_a_minute_are_limited_and_plain_text_is_not(
    run: Any, certificates: Certificates
) -> None:
    async def main() -> None:
        limits = ConnectionLimits(handshakes_per_minute=2)
        async with serving(certificates.settings("permissive"), limits=limits) as (server, port):
            for _ in range(2):
                async with peer_of(port, trusting()) as peer:
                    assert (await peer.ask(ECHO)).code == 0
            with pytest.raises((ConnectionError, ssl.SSLError)):
                async with peer_of(port, trusting()):
                    pass
            assert server.faults.limits["maxTlsHandshakesPerMinute"] == 1
            async with peer_of(port) as peer:
                assert (await peer.ask(ECHO)).code == 0

    run(main())


def test_hellos_that_arrive_at_once_are_handled_a_few_in_each_turn_of_the_loop(
    run: Any, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, cost_ns, now, handled = 60, 1_000_000, 1 << 40, 0
    for module in (turns, channel):
        monkeypatch.setattr(module, "monotonic_ns", lambda: now)
    decrypt_all = TlsLayer._decrypt_all

    def handle(layer: TlsLayer, tls: ssl.SSLObject, data: bytes) -> tuple[list[bytes], bool]:
        nonlocal now, handled
        handled += 1
        now += cost_ns
        return decrypt_all(layer, tls, data)

    async def main() -> None:
        async with serving(certificates.settings("permissive")) as (server, port), contextlib.AsyncExitStack() as stack:
            async with peer_of(port, trusting()) as peer:  # the certificate is loaded
                assert (await peer.ask(ECHO)).code == 0
            monkeypatch.setattr(TlsLayer, "_decrypt_all", handle)
            peers = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]
            await until(lambda: len(server.connections) >= count)
            for each in peers:
                each.sendall(hello())
            seen = [0]
            while handled < count:
                await asyncio.sleep(0)
                seen.append(handled)
            most = (turns.LOOP_NS + turns.TURN_NS) // cost_ns + 1
            assert max(later - earlier for earlier, later in itertools.pairwise(seen)) <= most

    run(main())


def test_tls_buffers_count_as_memory_of_connections_until_these_are_closed(
    run: Any, certificates: Certificates
) -> None:
    async def main() -> None:
        async with serving(certificates.settings("permissive")) as (server, port):
            async with peer_of(port, trusting()) as peer:
                assert (await peer.ask(ECHO)).code == 0
                small = server.held_bytes
                assert 0 < small < 16 << 10
                assert (await peer.ask(ECHO, bytes(300_000))).code == 0
                large = server.held_bytes
                assert 16 << 10 < large <= 70_000
                assert (await peer.ask(ECHO, bytes(300_000))).code == 0
                assert server.held_bytes <= 70_000
            await until(lambda: server.held_bytes == 0)
            async with peer_of(port) as peer:
                assert (await peer.ask(ECHO, bytes(300_000))).code == 0
                assert server.held_bytes == 0

    run(main())


# -- who is served --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["disabled", "permissive", "enforcing"])
@pytest.mark.parametrize("uses_tls", [True, False])
def test_mode_decides_whether_tls_and_plain_clients_are_served(
    run: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture, mode: str, uses_tls: bool
) -> None:
    is_served = mode != ("disabled" if uses_tls else "enforcing")

    async def main() -> None:
        async with serving(certificates.settings(mode)) as (server, port):
            try:
                async with peer_of(port, certificates.client() if uses_tls else None) as peer:
                    assert (await peer.ask(ECHO, b"x")).body == b"x"
                    assert [connection.channel.is_encrypted for connection in server.connections] == [uses_tls]
                    assert is_served
            except (ConnectionError, ssl.SSLError):
                assert not is_served
            await until(lambda: not server.connections)

    run(main())
    (said,) = warnings_in(caplog) or [""]
    assert ("" if is_served else "TLS is disabled" if uses_tls else "TLS is required") in said


@pytest.mark.parametrize("client_auth", ["none", "optional", "require"])
@pytest.mark.parametrize("certificate", ["", "known", "stranger", "expired"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_certificates_are_verified_as_need_client_auth_asks(
    run: Any, certificates: Certificates, client_auth: str, certificate: str, version: ssl.TLSVersion
) -> None:
    served = {
        "none": {"": "None", "known": "None", "stranger": "None", "expired": "None"},
        "optional": {"": "None", "known": "CN=known"},
        "require": {"known": "CN=known"},
    }[client_auth].get(certificate)

    async def main() -> None:
        async with serving(certificates.settings(client_auth=client_auth)) as (server, port):
            context = certificates.client(certificate)
            context.maximum_version = version
            try:
                async with peer_of(port, context) as peer:
                    assert (await peer.ask(WHO)).remark == served
            except (ConnectionError, ssl.SSLError):
                assert served is None
            assert server.tls_failures == (served is None)

    run(main())


@pytest.mark.parametrize(
    ("server", "trust", "reason"),
    [
        ("server", "stranger", "unable to get local issuer|self-signed"),
        ("expired-server", "ca", "expired"),
        ("known", "ca", "IP address mismatch|unsuitable"),
    ],
)
def test_client_refuses_servers_that_it_cannot_verify(
    run: Any, certificates: Certificates, server: str, trust: str, reason: str
) -> None:
    async def main() -> None:
        async with serving(certificates.settings(server=server)) as (serving_server, port):
            client = RemotingClient(ssl=certificates.client(trust=trust))
            with pytest.raises(ConnectError, match=reason):
                await client.request(f"127.0.0.1:{port}", create_request(ECHO), 60_000)
            await client.close()
            await until(lambda: serving_server.tls_failures == 1)

    run(main())


@pytest.mark.slow
def test_certificate_is_made_once_when_none_is_configured_and_kept(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "tls" / "self-made.pem"

    async def certificate_of(port: int) -> bytes | None:
        async with peer_of(port, trusting()) as peer:
            assert (await peer.ask(ECHO, b"x")).body == b"x"
            found: bytes | None = peer.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            return found

    async def main() -> None:
        seen: set[bytes | None] = set()
        for _ in range(2):
            async with serving(TlsSettings(self_made=str(path))) as (_, port):
                assert path.exists() == bool(seen)
                seen |= set(await asyncio.gather(*(certificate_of(port) for _ in range(5))))
        assert len(seen) == 1

    run(main())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_certificate_that_cannot_be_made_fails_the_handshake_with_the_reason(
    run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tls").touch()

    async def main() -> None:
        async with serving(TlsSettings(self_made=str(tmp_path / "tls" / "self-made.pem"))) as (server, port):
            with pytest.raises((ConnectionError, ssl.SSLError)):
                async with peer_of(port, trusting()):
                    pass
            await until(lambda: not server.connections)
            async with peer_of(port) as plain:
                assert (await plain.ask(ECHO, b"x")).body == b"x"

    run(main())
    assert any("cannot write the self-signed certificate" in line for line in warnings_in(caplog))


def test_bytes_that_arrive_while_the_certificate_is_loaded_are_kept(
    run: Any, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_load = threading.Event()
    loaded = tls_context.server_context

    def load(settings: TlsSettings) -> ssl.SSLContext:
        assert may_load.wait(60)
        return loaded(settings)

    monkeypatch.setattr(server_tls, "server_context", load)
    may_load.clear()

    async def main() -> None:
        async with serving(certificates.settings()) as (server, port):
            first, *others = (asyncio.create_task(ask(port)) for _ in range(3))
            await until(lambda: len([each for each in server.connections if each.channel.is_encrypted]) == 3)
            async with peer_of(port) as plain:
                assert (await plain.ask(ECHO, b"x")).body == b"x"
            may_load.set()
            await asyncio.gather(first, *others)

    async def ask(port: int) -> None:
        async with peer_of(port, certificates.client()) as peer:
            assert (await peer.ask(ECHO, b"x")).body == b"x"

    run(main())


# -- handshakes that fail -------------------------------------------------------------------------------------------------


def hello_of(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("sent", ["one byte", "half a hello", "a hello"])
def test_handshake_that_is_not_completed_is_closed_at_its_deadline(
    run: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    monkeypatch.setattr(tls_layer, "HANDSHAKE_TIMEOUT_S", 0.1)
    hello = hello_of(trusting())
    data = {"one byte": hello[:1], "half a hello": hello[: len(hello) // 2], "a hello": hello}[sent]

    async def main() -> None:
        async with serving(certificates.settings()) as (server, port), peer_of(port) as peer:
            peer.writer.write(data)
            await peer.ended()
            await until(lambda: not server.connections)
            assert server.tls_failures == 1

    run(main())
    (said,) = warnings_in(caplog)
    assert "not completed within 0.1 s" in said


def test_peer_that_goes_away_during_the_handshake_is_logged_once(
    run: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(certificates.settings()) as (server, port):
            async with peer_of(port) as peer:
                peer.writer.write(hello_of(trusting())[:100])
                await until(lambda: server.connections and next(iter(server.connections)).channel.is_encrypted)
            await until(lambda: not server.connections)
            assert server.tls_failures == 1

    run(main())
    (said,) = warnings_in(caplog)
    assert "the peer closed the connection" in said


def test_hello_that_arrives_byte_by_byte_is_served(run: Any, certificates: Certificates) -> None:
    async def main() -> None:
        async with serving(certificates.settings()) as (_, port), peer_of(port) as peer:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = certificates.client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    for byte in outgoing.read():
                        peer.writer.write(bytes([byte]))
                        await peer.writer.drain()
                        await asyncio.sleep(0)
                    incoming.write(await peer.reader.read(65536))
            client.write(create_request(ECHO, body=b"x").encode())
            peer.writer.write(outgoing.read())
            plain = b""
            while not peer.commands:
                incoming.write(await peer.reader.read(65536))
                try:
                    plain = client.read(65536)
                except ssl.SSLWantReadError:
                    continue
                peer.commands += peer.decoder.feed(plain)
            assert peer.commands[0].body == b"x"

    run(main())


def test_garbage_after_the_first_byte_closes_with_one_line(
    run: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(certificates.settings()) as (server, port), peer_of(port) as peer:
            peer.writer.write(b"\x16 is no TLS record")
            await peer.ended()
            await until(lambda: not server.connections)

    run(main())
    (said,) = warnings_in(caplog)
    assert "TLS failed" in said


def test_record_that_was_changed_on_its_way_closes_the_connection(
    run: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(certificates.settings()) as (server, port), peer_of(port) as peer:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = certificates.client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    peer.writer.write(outgoing.read())
                    incoming.write(await peer.reader.read(65536))
            client.write(create_request(ECHO, body=b"x").encode())
            record = bytearray(outgoing.read())
            record[-1] ^= 1
            peer.writer.write(bytes(record))
            await peer.ended()
            await until(lambda: not server.connections)
            assert server.bad_frames == 0

    run(main())
    (said,) = warnings_in(caplog)
    assert "TLS failed: " in said


@pytest.mark.slow
def test_changed_hellos_never_harm_the_server(run: Any, certificates: Certificates) -> None:
    chance = random.Random(7)
    hello = hello_of(trusting())

    async def attack(port: int) -> None:
        data = bytearray(hello)
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(1, len(data))] = chance.randrange(256)
        async with peer_of(port) as peer:
            peer.writer.write(bytes(data[: chance.randint(1, len(data))]) + chance.randbytes(chance.randint(0, 64)))
            peer.writer.write_eof()
            await peer.ended()

    async def main() -> None:
        async with serving(certificates.settings()) as (server, port):
            for _ in range(20):
                await asyncio.gather(*(attack(port) for _ in range(10)))
            await until(lambda: not server.connections)
            assert server.handler_errors == 0
            async with peer_of(port, certificates.client()) as peer:
                assert (await peer.ask(ECHO, b"x")).body == b"x"

    run(main())


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_old_protocols_are_refused(run: Any, certificates: Certificates, version: str) -> None:
    async def main() -> None:
        async with serving(certificates.settings()) as (server, port):
            context = trusting()
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
            with pytest.raises(ssl.SSLError, match=r"(?i)protocol version|unsupported protocol"):
                async with peer_of(port, context):
                    pass
            assert server.tls_failures == 1

    run(main())


@pytest.mark.parametrize(
    "ciphers", ["aNULL", "eNULL", "kRSA", "DHE", "SHA1", "CAMELLIA", "ECDHE-ECDSA-AES128-SHA256", "3DES"]
)
def test_weak_ciphers_are_refused(run: Any, certificates: Certificates, ciphers: str) -> None:
    context = trusting()
    try:
        context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    except ssl.SSLError:
        return  # this OpenSSL does not even have them
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def main() -> None:
        async with serving(certificates.settings()) as (server, port):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                async with peer_of(port, context) as peer:
                    await peer.ask(ECHO)
            assert server.tls_failures == 1

    run(main())


def test_only_forward_secret_authenticated_ciphers_are_offered(certificates: Certificates) -> None:
    context = server_context(certificates.settings())
    names = {cipher["name"] for cipher in context.get_ciphers()}
    assert names
    assert all(name.startswith(("TLS_", "ECDHE-")) and ("GCM" in name or "CHACHA20" in name) for name in names)
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


# -- what passes through --------------------------------------------------------------------------------------------------


def test_large_and_pipelined_frames_pass_unchanged(run: Any, certificates: Certificates) -> None:
    bodies = [random.Random(3).randbytes(size) for size in (0, 1, 16_383, 16_384, 16_385, 70_000, 3 * MIB)] * 3

    async def main() -> None:
        async with serving(certificates.settings()) as (server, port), peer_of(port, certificates.client()) as peer:
            peer.write(*(create_request(ECHO, body=body) for body in bodies))
            answers = await peer.read(len(bodies))
            assert [answer.body for answer in answers] == bodies
            assert server.held_bytes <= 70_000  # OpenSSL's buffers

    run(main())


class Wire(asyncio.Transport):
    """Keeps what is written; data goes nowhere by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        pass

    def is_closing(self) -> bool:
        return False


def test_each_record_is_read_once(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    read = ssl.SSLObject.read

    def count(self: ssl.SSLObject, *arguments: Any) -> Any:
        nonlocal reads
        reads += self.server_side
        return read(self, *arguments)

    monkeypatch.setattr(ssl.SSLObject, "read", count)
    received: list[bytes] = []
    user = Mock(data_received=received.append)

    async def main() -> None:
        nonlocal reads
        wire, incoming, outgoing = Wire(), ssl.MemoryBIO(), ssl.MemoryBIO()
        client = certificates.client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        layer = tls_layer.TlsLayer(asyncio.get_running_loop(), wire, user)
        layer.begin(server_context(certificates.settings()), outgoing.read())
        incoming.write(b"".join(wire.written))
        client.do_handshake()
        client.write(b"first")
        layer.data_received(outgoing.read())  # the end of the handshake and a record
        assert (received.pop(), reads) == (b"first", 1)
        for size in (1, 16_384):
            reads = 0
            client.write(bytes(size))
            layer.data_received(outgoing.read())
            assert (received.pop(), reads) == (bytes(size), 1)
        # A record in two parts is asked for twice, two records in one part are handed on together.
        reads = 0
        client.write(b"halves")
        record = outgoing.read()
        layer.data_received(record[:9])
        assert (received, reads) == ([], 1)
        layer.data_received(record[9:])
        assert (received.pop(), reads) == (b"halves", 2)
        client.write(b"one ")
        client.write(b"two")
        layer.data_received(outgoing.read())
        assert (received, reads) == ([b"one two"], 4)

    asyncio.run(main())
    user.tls_failed.assert_not_called()


def test_one_batch_of_answers_leaves_with_one_write(
    run: Any, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    wrapped = tls_layer.TlsLayer.write

    def count(self: tls_layer.TlsLayer, data: bytes) -> None:
        written.append(len(data))
        wrapped(self, data)

    monkeypatch.setattr(tls_layer.TlsLayer, "write", count)
    for module in (turns, channel):  # on a busy machine the client's turn could end in between
        monkeypatch.setattr(module, "monotonic_ns", lambda: 1 << 40)

    async def main() -> None:
        async with serving(certificates.settings()) as (_, port), peer_of(port, certificates.client()) as peer:
            peer.write(*(create_request(ECHO, body=b"x") for _ in range(32)))
            await peer.read(32)

    run(main())
    assert len(written) == 1


@pytest.mark.slow
def test_peer_that_does_not_read_is_bounded_and_closed(
    run: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(certificates.settings(), stall_grace_s=0.3) as (server, port):
            async with peer_of(port, certificates.client()) as peer:
                most = 0
                for _ in range(40):
                    peer.write(*(create_request(BIG) for _ in range(4)))
                await until(lambda: server.connections)

                def is_closed() -> bool:
                    nonlocal most
                    most = max(most, server.held_bytes)
                    return not server.connections

                await until(is_closed)
                assert 0 < most < 8 * MIB
            assert server.held_bytes == 0

    run(main())
    assert any("peer not reading" in line for line in warnings_in(caplog))


def test_close_of_either_side_ends_the_connection_quietly(
    run: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(certificates.settings()) as (server, port):
            async with peer_of(port, certificates.client()) as peer:
                await peer.ask(ECHO)
            await until(lambda: not server.connections)
            async with peer_of(port, certificates.client()) as peer:
                await peer.ask(ECHO)
                next(iter(server.connections)).close("enough", logging.DEBUG)
                assert await peer.ended() == b""
            await until(lambda: not server.connections)
            assert server.tls_failures == 0

    run(main())
    assert not warnings_in(caplog)


def test_client_and_server_of_this_package_exchange_requests(run: Any, certificates: Certificates) -> None:
    async def main() -> None:
        async with serving(certificates.settings("enforcing", client_auth="require")) as (_, port):
            client = RemotingClient(ssl=certificates.client("known"))
            bodies = [bytes([number]) * 1000 for number in range(256)]
            answers = await asyncio.gather(
                *(client.request(f"127.0.0.1:{port}", create_request(ECHO, body=body), 60_000) for body in bodies)
            )
            assert [answer.body for answer in answers] == bodies
            await client.close()
            plain = RemotingClient()
            with pytest.raises(RemotingError):
                await plain.request(f"127.0.0.1:{port}", create_request(ECHO), 60_000)
            await plain.close()

    run(main())


def test_client_whose_server_has_tls_disabled_reports_that_it_may_not_support_tls(
    run: Any, certificates: Certificates
) -> None:
    async def main() -> None:
        async with serving(certificates.settings("disabled")) as (_, port):
            client = RemotingClient(ssl=certificates.client())
            with pytest.raises(ConnectError, match=r"by TLS: the server closed the connection .*may not support TLS"):
                await client.request(f"127.0.0.1:{port}", create_request(ECHO), 60_000)
            await client.close()

    run(main())


# -- reloading ------------------------------------------------------------------------------------------------------------


def test_changed_certificate_is_used_for_new_connections_and_an_invalid_one_is_not(
    run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_tls, "CHECK_INTERVAL_S", 0.0)
    caplog.set_level(logging.INFO)
    files = Certificates(tmp_path)
    files.issue("second", for_server=True)

    def subject(peer: Peer) -> str | None:
        return subject_of(peer.writer.get_extra_info("ssl_object").getpeercert())

    def put(name: str) -> None:
        for ending in ("key", "pem"):
            files.path(f"{name}.{ending}").rename(files.path(f"server.{ending}"))

    async def main() -> None:
        async with serving(files.settings()) as (_, port), peer_of(port, files.client()) as first:
            assert subject(first) == "CN=server"
            put("second")
            async with peer_of(port, files.client()) as second:
                assert subject(second) == "CN=second"
                files.path("server.pem").write_text("no certificate")
                for _ in range(2):
                    async with peer_of(port, files.client()) as third:
                        assert subject(third) == "CN=second"
                        assert (await third.ask(ECHO, b"x")).body == b"x"
            assert (await first.ask(ECHO, b"x")).body == b"x"

    run(main())
    assert sum("certificate reloaded" in record.getMessage() for record in caplog.records) == 1
    (said,) = warnings_in(caplog)
    assert "the previous one stays in use" in said
    assert "server.pem" in said


# -- settings -------------------------------------------------------------------------------------------------------------


def test_properties_of_rocketmq_are_understood() -> None:
    settings = parse_tls_settings(
        {
            "tls.server.mode": "Enforcing",
            "tls.test.mode.enable": "false",
            "tls.server.certPath": "/c",
            "tls.server.keyPath": "/k",
            "tls.server.keyPassword": "secret",
            "tls.server.authClient": "true",
            "tls.server.need.client.auth": "require",
            "tls.server.trustCertPath": "/t",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": "/ct",
        }
    )
    assert settings.mode == "enforcing"
    assert settings.server.files == ("/c", "/k", "/t")
    assert settings.client_auth == "require"
    assert settings.connects_by_tls
    assert settings.verifies_servers
    assert settings.client.trust == "/ct"
    assert "secret" not in repr(settings)


def test_test_mode_uses_a_self_made_certificate_and_verifies_nobody() -> None:
    texts = {"tls.test.mode.enable": "true", "tls.server.certPath": "/c", "tls.server.keyPath": "/k"}
    settings = parse_tls_settings(texts)
    assert settings.is_self_made
    assert settings.client_auth == "none"
    assert not settings.connects_by_tls


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"tls.server.mode": "on"}, "tls.server.mode=on: expected disabled, permissive or enforcing"),
        ({"tls.server.need.client.auth": "maybe"}, "expected none, optional or require"),
        ({"tls.server.certPath": "/c"}, "tls.server.certPath is set, tls.server.keyPath is not"),
        ({"tls.client.keyPath": "/k"}, "tls.client.keyPath is set, tls.client.certPath is not"),
        ({"tls.server.need.client.auth": "require"}, "requires tls.server.authClient=true"),
        ({"tls.test.mode.enable": "yes"}, "expected true or false"),
    ],
)
def test_contradictory_settings_are_refused_with_the_key(texts: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_tls_settings(texts)


def test_files_that_cannot_be_used_are_named_with_the_reason(certificates: Certificates, tmp_path: Path) -> None:
    good = certificates.properties(client_auth="require")
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    for key, value, reason in (
        ("tls.server.certPath", "/nowhere.pem", "tls.server.certPath=/nowhere.pem: No such file"),
        ("tls.server.keyPath", str(tmp_path), "tls.server.keyPath=.*: Is a directory"),
        ("tls.server.keyPath", str(certificates.path("known.key")), "not the private key of"),
        ("tls.server.certPath", str(junk), "expected a certificate and its key in PEM format"),
        ("tls.server.trustCertPath", str(junk), "tls.server.trustCertPath=.*: expected certificates in PEM format"),
    ):
        with pytest.raises(ConfigError, match=reason):
            server_context(parse_tls_settings({**good, key: value}))


def test_encrypted_key_needs_its_password(certificates: Certificates, tmp_path: Path) -> None:
    key = load_pem_private_key(certificates.path("server.key").read_bytes(), None)
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    texts = {**certificates.properties(), "tls.server.keyPath": str(encrypted)}
    server_context(parse_tls_settings({**texts, "tls.server.keyPassword": "secret"}))
    for wrong in ({}, {"tls.server.keyPassword": "wrong"}):
        with pytest.raises(ConfigError, match=r"cannot be decrypted; check tls\.server\.keyPassword") as caught:
            server_context(parse_tls_settings({**texts, **wrong}))
        assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ((), ""),
        (((("commonName", "app"),),), "CN=app"),
        (
            ((("countryName", "DE"),), (("organizationName", "A, B"),), (("commonName", "x=y"),)),
            r"CN=x\=y,O=A\, B,C=DE",
        ),
        (((("commonName", " #a "),),), r"CN=\ #a\ "),
        (((("commonName", "a"), ("userId", "b")),), "CN=a+UID=b"),
        (((("commonName", 'a",CN=root'),),), r"CN=a\"\,CN\=root"),
    ],
)
def test_subjects_are_written_unambiguously(subject: Any, text: str) -> None:
    assert subject_of({"subject": subject}) == text
    assert subject_of({}) is None
    assert subject_of(None) is None
