"""Test support for programs that use RocketMQ: a real name server and broker, started for the test run.

    # conftest.py
    pytest_plugins = ["headrace.testing"]

    # test_orders.py
    def test_order_is_sent(headrace_server):
        with Producer("orders", headrace_server.name_server) as producer:
            assert producer.send(Message("Orders", b"x")).ok

The server is the Headrace appliance, which must be installed beside the client (the command `headrace`). It stores its data in a temporary folder and
stops with the test run. HEADRACE_TEST_NAME_SERVER names a running cluster to use instead.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pytest

from headrace.errors import HeadraceError, StateError
from headrace.model.names import AUTO_CREATE_TOPIC
from headrace.sync import Admin

NAME_SERVER_VARIABLE: Final = "HEADRACE_TEST_NAME_SERVER"
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
TRIES: Final = 5
"""How many ports are tried, if other programs take each of them first."""
_LOWEST_PORT, _HIGHEST_PORT = 11_000, 32_000
_PAUSE_S: Final = 0.05
# The line of `headrace run` when clients can connect; the exit code when it cannot start, for example because a port is in use.
_READY: Final = "headrace: ready"
_COULD_NOT_START: Final = 3


@dataclass(frozen=True)
class RunningServer:
    """A cluster to test against: `name_server` is the address for clients."""

    name_server: str


class _PortTaken(StateError):  # noqa: N818 (named after what happened, as in errors.py)
    """Another program took a port after it was found free."""


class HeadraceServer:
    """The appliance in a process of its own: a context manager that returns a RunningServer.

    Raises StateError if the command `headrace` is not installed or does not become ready; the message contains the reason. If another program takes one
    of its ports first, it is started again with other ports.
    """

    def __init__(self, data: Path) -> None:
        """`data`: an empty folder, or one of an earlier run."""
        self._data = data
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = (0, 0)

    @property
    def name_server(self) -> str:
        """HOST:PORT of the name server."""
        return f"127.0.0.1:{self._ports[0]}"

    def start(self) -> Self:
        """Starts it; returns when it accepts messages."""
        command = _find_command()
        for _ in range(TRIES - 1):
            with contextlib.suppress(_PortTaken):
                return self._start(command)
        return self._start(command)

    def _start(self, command: str) -> Self:
        self._ports = _free_ports()
        self._data.mkdir(parents=True, exist_ok=True)
        log = self._data / "server.log"
        with log.open("ab") as out:
            said_before = out.tell()
            self._process = process = subprocess.Popen(
                [
                    command, "run", "--data", str(self._data / "data"), "--host", "127.0.0.1",
                    "--nameserver-port", str(self._ports[0]), "--port", str(self._ports[1]), "--no-console",
                ],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

        def said() -> str:
            return log.read_bytes()[said_before:].decode(errors="replace")

        try:
            if not self._is_ready(process, said):
                raise self._failure(process.poll(), said())
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops it in order; may be called twice."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _is_ready(self, process: "subprocess.Popen[bytes]", said: Callable[[], str]) -> bool:
        """Waits until it is ready; returns False if it has ended or takes too long."""
        end = time.monotonic() + START_TIMEOUT_S

        def is_hopeless() -> bool:
            return process.poll() is not None or time.monotonic() > end

        # order: the ports are its own once it reports ready; before that, another program's server might answer there.
        while _READY not in said():
            if is_hopeless():
                return False
            time.sleep(_PAUSE_S)
        with Admin(self.name_server) as admin:
            while not self._is_registered(admin):
                if is_hopeless():
                    return False
                time.sleep(_PAUSE_S)
        return True

    def _is_registered(self, admin: Admin) -> bool:
        try:
            brokers = admin.topic_route(AUTO_CREATE_TOPIC).broker_datas
        except HeadraceError:
            return False
        return any(one.master_address == f"127.0.0.1:{self._ports[1]}" for one in brokers)

    def _failure(self, code: int | None, said: str) -> StateError:
        ports = "|".join(map(str, _all_ports(*self._ports)))
        taken = rf"\b({ports})\b.*in use"
        kind = _PortTaken if code == _COULD_NOT_START and re.search(taken, said, re.IGNORECASE) else StateError
        return kind(f"the appliance did not become ready; its output:\n{said[-2000:]}", "starting")

    def __enter__(self) -> RunningServer:
        return RunningServer(self.start().name_server)

    def __exit__(self, *_: object) -> None:
        self.stop()


@pytest.fixture(scope="session")
def headrace_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A name server and a broker for the whole test run."""
    known = os.environ.get(NAME_SERVER_VARIABLE)
    if known:
        yield RunningServer(known)
        return
    with HeadraceServer(tmp_path_factory.mktemp("headrace")) as server:
        yield server


def _find_command() -> str:
    beside = Path(sys.executable).with_name("headrace")
    command = str(beside) if beside.exists() else shutil.which("headrace")
    if command is None:
        message = f"the command `headrace` is not installed; install the appliance, or set {NAME_SERVER_VARIABLE} to a running cluster"
        raise StateError(message, "not installed")
    return command


def _free_ports() -> tuple[int, int]:
    """Returns a free port for the name server, and one for the broker where port - 2 and port + 1 are free too.

    They are below the kernel's range for outgoing connections, which could otherwise take a port first.
    """
    for broker in random.SystemRandom().sample(range(_LOWEST_PORT, _HIGHEST_PORT, 8), 100):
        if all(map(_is_free, _all_ports(broker - 4, broker))):
            return broker - 4, broker
    raise StateError(
        "no free ports below ip_local_port_range; stop programs that use them",
        "starting",
    )


def _all_ports(name_server: int, broker: int) -> tuple[int, ...]:
    """Returns all ports that the appliance listens on: those of the broker's VIP channel and HA are next to its own."""
    return name_server, broker, broker - 2, broker + 1


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
