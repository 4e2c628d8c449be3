"""Invalid, incomplete or missing input: the peer is answered or disconnected, and other clients are served."""

import contextlib
import random
import resource
import socket
import struct
from collections.abc import Iterator

import psutil
import pytest

from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import RemotingCommand, create_request
from support.plain_sender import PlainSender
from support.servers import wait_until
from support.watched import WatchedProcess as HeadraceProcess

pytestmark = pytest.mark.slow

SMALL = (
    "--set", "mappedFileSizeCommitLog=5242880", "--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=4000",
)  # fmt: skip
SILENT_CONNECTIONS = 10_000
PATIENCE_S = 60


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceProcess]:
    with HeadraceProcess(tmp_path_factory.mktemp("bad-input") / "data", *SMALL).wait_ready() as started:
        yield started
        assert {name: role["restarts"] for name, role in started.status()["roles"].items() if role["restarts"]} == {}
        assert started.stop() == 0


@pytest.fixture(params=["name server", "broker", "VIP channel"])
def port(request: pytest.FixtureRequest, appliance: HeadraceProcess) -> int:
    name_server, broker = appliance.ports
    return {"name server": name_server, "broker": broker, "VIP channel": broker - 2}[request.param]


def is_hung_up_on(peer: socket.socket) -> bool:
    """Whether the other side closes the connection, whatever it sends before."""
    with contextlib.suppress(ConnectionResetError):
        while peer.recv(65_536):
            pass
    return True


def ask(port: int, request: RemotingCommand) -> RemotingCommand:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as peer:
        peer.sendall(request.encode())
        decoder = FrameDecoder()
        while True:
            data = peer.recv(65_536)
            assert data, "disconnected without an answer"
            for answer in decoder.feed(data):
                return answer


def assert_served(appliance: HeadraceProcess) -> None:
    """Checks that the broker accepts a message and that the name server returns the broker's address."""
    with PlainSender(appliance.ports[1]) as sender:
        sender.send(1, deadline_s=PATIENCE_S)
    assert ask(appliance.ports[0], create_request(106)).code == 0


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack(">i", 0x7FFFFFFF) + b"x" * 100,
        struct.pack(">i", -1) + b"x" * 100,
        struct.pack(">i", 0) + b"x" * 100,
        struct.pack(">ii", 20, 1 << 20) + b"x" * 16,
        struct.pack(">ii", 20, 16) + b"{" * 16,
        struct.pack(">ii", 20, 0x05000010) + b"x" * 16,
    ],
    ids=["http", "huge", "negative", "empty", "header beyond frame", "bad json", "unknown encoding"],
)
def test_invalid_frame_closes_the_connection_and_logs_the_reason(
    appliance: HeadraceProcess, port: int, nonsense: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as peer:
        local = peer.getsockname()[1]
        peer.sendall(nonsense)
        assert is_hung_up_on(peer)
    wait_until(lambda: f"127.0.0.1:{local}" in appliance.log, 60, "a reason in the log")
    assert_served(appliance)


def test_random_bytes_do_not_affect_other_clients(appliance: HeadraceProcess, port: int) -> None:
    chance = random.Random(20)
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as peer, contextlib.suppress(OSError):
            peer.sendall(chance.randbytes(chance.randrange(1, 3000)))
    assert_served(appliance)


def test_incomplete_frames_are_awaited_without_blocking_others(appliance: HeadraceProcess, port: int) -> None:
    whole = create_request(105, {"topic": "TBW102"}).encode()
    peers = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(len(whole) - 1)]
    for cut, peer in enumerate(peers, 1):
        peer.sendall(whole[:cut])
    assert_served(appliance)
    # The rest arrives, and the frame is answered as if it had arrived at once.
    peers[6].sendall(whole[7:])
    assert peers[6].recv(4)
    for peer in peers:
        peer.close()


def test_unknown_request_code_is_answered_with_an_error(port: int) -> None:
    answer = ask(port, create_request(31_999))
    assert answer.code == 3
    assert "31999" in str(answer.remark)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (310, {"a": "g", "b": "T", "e": "many"}),
        (310, {}),
        (10, {"topic": "T", "queueId": "99999999999999999999"}),
        (11, {"consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "x"}),
        (15, {"topic": "T", "queueId": ""}),
        (30, {"topic": "TBW102", "queueId": "1.5"}),
    ],
)
def test_fields_of_the_wrong_type_are_refused_with_a_remark(
    appliance: HeadraceProcess, code: int, fields: dict[str, str]
) -> None:
    answer = ask(appliance.ports[1], create_request(code, fields))
    assert answer.code != 0
    assert answer.remark
    assert_served(appliance)


def test_missing_body_allocates_no_memory(appliance: HeadraceProcess) -> None:
    broker = psutil.Process(appliance.pid_of("broker"))
    before = broker.memory_info().rss
    peers = [socket.create_connection(("127.0.0.1", appliance.ports[1]), PATIENCE_S) for _ in range(200)]
    for peer in peers:
        peer.sendall(struct.pack(">i", 16_000_000) + b"\0\0\0\x40{")
    assert_served(appliance)
    assert broker.memory_info().rss - before < 100 << 20
    for peer in peers:
        peer.close()


def test_ten_thousand_idle_connections_leave_room_for_others(appliance: HeadraceProcess) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, SILENT_CONNECTIONS + 1_000), hard))
    broker = psutil.Process(appliance.pid_of("broker"))
    before = broker.memory_info().rss
    silent: list[socket.socket] = []
    try:
        address = ("127.0.0.1", appliance.ports[1])
        silent.extend(socket.create_connection(address, PATIENCE_S) for _ in range(SILENT_CONNECTIONS))
        assert_served(appliance)
        assert (broker.memory_info().rss - before) / SILENT_CONNECTIONS < 20_000
    finally:
        for peer in silent:
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_until(lambda: len(broker.net_connections()) < 100, 60, "the connections to be gone")
    assert_served(appliance)


def test_answers_to_a_peer_that_does_not_read_are_bounded(appliance: HeadraceProcess) -> None:
    broker = psutil.Process(appliance.pid_of("broker"))
    before = broker.memory_info().rss
    request = create_request(21).encode()  # all topics: a long answer to a short request
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        peer.connect(("127.0.0.1", appliance.ports[1]))
        peer.settimeout(1.0)
        with contextlib.suppress(TimeoutError, ConnectionError):
            for _ in range(2_000):
                peer.sendall(request * 50)
        assert_served(appliance)
        assert broker.memory_info().rss - before < 200 << 20


def test_no_process_hung_during_these_tests(appliance: HeadraceProcess) -> None:
    assert not (appliance.data / "logs" / "stacks.log").read_text()
