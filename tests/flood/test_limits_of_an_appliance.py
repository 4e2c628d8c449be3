"""Limits that are set in broker.conf are enforced by a running appliance, counted in its status, and logged once."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.statistics.counters import LIMITS
from headrace.model.connection_limits import OPTIONS
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import RemotingCommand, create_request
from support import load
from support.headrace_process import HeadraceProcess, headrace
from support.servers import wait_until

pytestmark = pytest.mark.slow

SETTINGS = {
    "maxConnections": 40, "maxConnectionsPerAddress": 10, "maxFrameSize": 1 << 20, "maxHeaderSize": 64 << 10,
    "maxMessageProperties": 8, "mappedFileSizeCommitLog": 8 << 20, "maxHashSlotNum": 1000, "maxIndexNum": 4000,
}  # fmt: skip


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceProcess]:
    options = [f"--set={key}={value}" for key, value in SETTINGS.items()]
    with HeadraceProcess(tmp_path_factory.mktemp("limits") / "data", *options).wait_ready() as started:
        yield started


def is_closed(peer: socket.socket) -> bool:
    peer.settimeout(30)
    with contextlib.suppress(ConnectionError):
        return peer.recv(1) == b""
    return True


def ask(peer: socket.socket, request: bytes) -> RemotingCommand:
    peer.settimeout(30)
    peer.sendall(request)
    decoder = FrameDecoder()
    while True:
        for answer in decoder.feed(peer.recv(65536)):
            return answer


def test_every_limit_has_a_counter_as_soon_as_the_appliance_is_ready(appliance: HeadraceProcess) -> None:
    counters = appliance.status()["counters"]
    assert {name for name in counters["broker"] if name.startswith("limit.")} == {
        f"limit.{option}" for option in LIMITS
    }
    assert {name for name in counters["nameserver"] if name.startswith("limit.")} == {
        f"limit.{option}" for option in OPTIONS
    }


def count_of(appliance: HeadraceProcess, limit: str) -> int:
    return int(appliance.status()["counters"]["broker"][f"limit.{limit}"])


def test_connections_beyond_the_limits_are_closed_and_others_are_served(appliance: HeadraceProcess) -> None:
    port = appliance.ports[1]
    with contextlib.ExitStack() as stack:

        def connect(address: str) -> socket.socket:
            return stack.enter_context(load.connect(port, address))

        mine = [connect("127.0.0.2") for _ in range(10)]
        for peer in mine:
            assert ask(peer, create_request(105).encode()).code != 0
        assert [is_closed(connect("127.0.0.2")) for _ in range(5)] == [True] * 5
        other = connect("127.0.0.3")
        assert ask(other, load.send_frame()).code == 0
        wait_until(lambda: count_of(appliance, "maxConnectionsPerAddress") == 5, 30, "the counter")
        # The appliance's own name server connection counts as well.
        for number in range(40):
            connect(f"127.0.1.{number + 1}")
        wait_until(lambda: count_of(appliance, "maxConnections") >= 10, 30, "the counter")
        assert ask(other, load.send_frame()).code == 0
    said = headrace("status", "--data", appliance.data).stdout
    assert "broker limit reached: maxConnectionsPerAddress, 5 times" in said
    # A process of its own writes the log, somewhat later than the counters change.
    for limit in ("maxConnectionsPerAddress", "maxConnections"):
        appliance.wait_log(f"limit reached limit={limit} ")
        assert appliance.log.count(f"limit reached limit={limit} ") == 1


@pytest.mark.parametrize(
    ("limit", "data"),
    [
        ("maxFrameSize", load.send_frame(1 << 20)[: 1 << 19]),
        ("maxHeaderSize", create_request(310, {"a": "x" * (64 << 10)}).encode()),
    ],
)
def test_larger_frame_or_header_closes_the_connection(appliance: HeadraceProcess, limit: str, data: bytes) -> None:
    with load.connect(appliance.ports[1], "127.0.0.4") as peer:
        with contextlib.suppress(ConnectionError):
            peer.sendall(data)
        assert is_closed(peer)
    wait_until(lambda: count_of(appliance, limit) == 1, 30, "the counter")


def test_message_with_too_many_properties_is_refused_and_counted(appliance: HeadraceProcess) -> None:
    (request,) = FrameDecoder().feed(load.send_frame())
    fields = dict(request.ext)
    fields["i"] = "\x02".join(f"k{number}\x01v" for number in range(9))
    with load.connect(appliance.ports[1], "127.0.0.5") as peer:
        answer = ask(peer, create_request(310, fields, b"x").encode())
    assert answer.code == 13
    assert "maxMessageProperties" in str(answer.remark)
    wait_until(lambda: count_of(appliance, "maxMessageProperties") == 1, 30, "the counter")


def test_limit_of_open_files_that_is_too_low_is_logged_in_one_line(tmp_path: Path) -> None:
    options = ("--set=maxConnections=10000000", "--set=mappedFileSizeCommitLog=8388608")
    with HeadraceProcess(tmp_path / "data", *options).wait_ready() as started:

        def lines_of_broker() -> list[str]:
            return [line for line in started.log.splitlines() if "connection limits set" in line and " broker[" in line]

        wait_until(lines_of_broker, 60, "the line in the log")
        lines = lines_of_broker()
        assert len(lines) == 1
        assert " warning " in lines[0]
        assert "configured_max_connections=10000000" in lines[0]
