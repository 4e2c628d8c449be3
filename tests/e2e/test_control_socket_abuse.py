"""The supervisor survives hostile requests and hostile clients on the control socket."""

import json
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from appliance.control_server import MAX_CLIENTS, MAX_REQUEST_BYTES
from ipc.control_socket import ask
from support.servers import wait_until
from support.watched import WatchedProcess as HeadraceProcess

pytestmark = pytest.mark.slow

RESPONSIVE_S = 1.0
SEED = 20261122
SEEDS = (
    b'{"command":"status"}',
    b'{"command":"restart","role":"nobody"}',
    b'{"command":"start","role":"sink"}',
    b'{"command":["status"],"role":{"a":1}}',
    '{"command":"größe","role":"\U0001f680"}'.encode(),
)
HOSTILE = {
    "a command that is a list": b'{"command":[1]}',
    "a command that is an object": b'{"command":{"a":{}}}',
    "a role that is a list": b'{"command":"stop","role":[1]}',
    "a role that is nested": b'{"command":"restart","role":' + b"[" * 500 + b"]" * 500 + b"}",
    "brackets without end": b"[" * 100_000,
    "brackets within the limit": b"[" * (MAX_REQUEST_BYTES - 1),
    "braces without end": b'{"a":' * 13_000,
    "half a surrogate pair as command": b'{"command":"\\ud800"}',
    "half a surrogate pair as role": b'{"command":"start","role":"\\udfff"}',
    "a long role": b'{"command":"start","role":"' + b"worke" * 13_000 + b'"}',
    "a long command": b'{"command":"' + b"\\u0000" * 10_000 + b'"}',
    "a long number": b'{"command":' + b"9" * 60_000 + b"}",
    "no JSON": b"\x00\xff\xfe",
    "no object": b"null",
    "a frame of RocketMQ": bytes.fromhex("0000003b0000000c") + b'{"code":28}',
    "a line without end": b"x" * (2 * MAX_REQUEST_BYTES),
    "empty lines": b"\n" * MAX_REQUEST_BYTES,
    "a thousand requests at once": b'{"command":"status"}\n' * 1000,
}


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[HeadraceProcess]:
    with HeadraceProcess(tmp_path / "data", toy="ok").wait_ready() as running:
        yield running
        assert "Traceback" not in running.log + running.err
        assert running.stop() == 0


def connect(appliance: HeadraceProcess) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)  # blocking: waits for room in the accept queue
    client.connect(str(appliance.data / "control.sock"))
    client.settimeout(60)
    return client


def answer_to(appliance: HeadraceProcess, request: bytes) -> bytes:
    """The answer to these bytes, up to the first line break or the end of the connection."""
    received = b""
    with connect(appliance) as client:
        try:
            client.sendall(request + b"\n")
            client.shutdown(socket.SHUT_WR)
            while not received.endswith(b"\n") and (data := client.recv(65_536)):
                received += data
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent
    return received


def assert_responsive(appliance: HeadraceProcess, roles: list[int | None]) -> None:
    began = time.monotonic()
    status = ask(appliance.data / "control.sock", {"command": "status"}, 60)["status"]
    assert time.monotonic() - began < RESPONSIVE_S
    assert [role["pid"] for role in status["roles"].values()] == roles


def pids(appliance: HeadraceProcess) -> list[int | None]:
    return [role["pid"] for role in appliance.status()["roles"].values()]


def test_hostile_request_is_refused_and_the_supervisor_keeps_running(appliance: HeadraceProcess) -> None:
    before = pids(appliance)
    for what, request in HOSTILE.items():
        answer = answer_to(appliance, request)
        if answer and what not in {"empty lines", "a thousand requests at once"}:
            assert json.loads(answer)["ok"] is False, what
            assert len(answer) < 1000, what
        assert_responsive(appliance, before)


def mutated(chance: random.Random) -> bytes:
    """One of the seeds with some bytes changed, duplicated or removed; never a stop request."""
    request = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randint(1, 6)):
        start = chance.randrange(len(request) + 1)
        end = start + chance.randint(0, 8)
        request[start:end] = chance.choice(
            (b"", chance.randbytes(3), request[start:end] * chance.randint(1, 50), b"[" * chance.randint(1, 3000), b'"')
        )
    return b"{}" if b"stop" in request else bytes(request).replace(b"\n", b" ")


def test_mutated_requests_do_not_stop_the_supervisor_or_fill_memory_or_log(appliance: HeadraceProcess) -> None:
    before, chance = pids(appliance), random.Random(SEED)
    supervisor = psutil.Process(appliance.process.pid)
    for _ in range(500):
        answer_to(appliance, mutated(chance))
    memory_bytes, log_lines = supervisor.memory_info().rss, len(appliance.log.splitlines())
    for _ in range(5000):
        answer_to(appliance, mutated(chance))
    assert_responsive(appliance, before)
    assert supervisor.memory_info().rss - memory_bytes < 4 << 20
    assert len(appliance.log.splitlines()) - log_lines < 100


def test_idle_connections_do_not_block_others(appliance: HeadraceProcess) -> None:
    before = pids(appliance)
    idle = [connect(appliance) for _ in range(4 * MAX_CLIENTS)]
    try:
        for client in idle[-MAX_CLIENTS // 2 :]:
            client.sendall(b'{"command":')  # and never sends the rest
        assert_responsive(appliance, before)
        assert psutil.Process(appliance.process.pid).num_fds() < 2 * MAX_CLIENTS + 64
    finally:
        for client in idle:
            client.close()


def test_client_that_reads_no_answers_does_not_block_others(appliance: HeadraceProcess) -> None:
    before = pids(appliance)
    with connect(appliance) as deaf:
        deaf.setblocking(False)
        sent = 0
        try:
            for _ in range(100_000):
                sent += deaf.send(b'{"command":"status"}\n')
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
        assert sent
        assert_responsive(appliance, before)
    with connect(appliance) as half_closed:
        half_closed.sendall(b'{"command":"status"}')
        half_closed.shutdown(socket.SHUT_WR)
        assert_responsive(appliance, before)


def test_requests_of_disconnected_clients_are_dropped(appliance: HeadraceProcess) -> None:
    before = pids(appliance)
    ask(appliance.data / "control.sock", {"command": "stop", "role": "sink"}, 60)
    supervisor = psutil.Process(appliance.process.pid)
    for _ in range(500):
        with connect(appliance) as client:
            client.sendall(b'{"command":"stop","role":"worker"}\n')
    ask(appliance.data / "control.sock", {"command": "start", "role": "sink"}, 60)
    ask(appliance.data / "control.sock", {"command": "start", "role": "worker"}, 60)
    assert pids(appliance) != before
    wait_until(lambda: supervisor.num_fds() < 64, 60, "connections closed")


def test_one_connection_serves_several_requests(appliance: HeadraceProcess) -> None:
    with connect(appliance) as client, client.makefile("rb") as answers:
        for _ in range(10):
            client.sendall(b'{"command":"status"}\r\n\n')
            assert json.loads(answers.readline())["ok"] is True
