"""For tests of programs that use RocketMQ: a real name server and broker, started for the test run.

    # conftest.py
    pytest_plugins = ["headrace.testing"]

    # test_orders.py
    def test_an_order_is_sent(headrace_server):
        with Producer("orders", headrace_server.name_server) as producer:
            assert producer.send(Message("Orders", b"x")).ok

The server is the Headrace appliance, which has to be installed beside the client (the command `headrace`). It keeps its data in a temporary folder and
ends with the test run. HEADRACE_TEST_NAME_SERVER names a cluster that runs already, to be used in its place.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pytest

from headrace.errors import HeadraceError, StateError
from headrace.sync import Admin

NAME_SERVER_VARIABLE: Final = "HEADRACE_TEST_NAME_SERVER"
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
_LOWEST_PORT, _HIGHEST_PORT = 11_000, 32_000


@dataclass(frozen=True)
class RunningServer:
    """A cluster to test against: `name_server` is what clients are given."""

    name_server: str


class HeadraceServer:
    """The appliance in a process of its own: a context manager that gives a RunningServer.

    Raises StateError if the command `headrace` is not installed, or does not get ready; the message says why.
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
        """Starts it; returns when it takes messages."""
        command = _find_command()
        self._ports = _free_ports()
        self._data.mkdir(parents=True, exist_ok=True)
        log = self._data / "server.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [
                    command, "run", "--data", str(self._data / "data"), "--host", "127.0.0.1",
                    "--nameserver-port", str(self._ports[0]), "--port", str(self._ports[1]),
                ],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            self._wait_ready(log)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends it in order; may be called twice."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _wait_ready(self, log: Path) -> None:
        assert self._process is not None
        end = time.monotonic() + START_TIMEOUT_S
        with Admin(self.name_server) as admin:
            while True:
                if self._process.poll() is not None or time.monotonic() > end:
                    said = log.read_text(errors="replace")[-2000:]
                    raise StateError(f"the appliance did not get ready; it said:\n{said}", "starting")
                try:
                    if admin.topic_route("TBW102").broker_datas:
                        return
                except HeadraceError:
                    time.sleep(0.05)

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
        message = f"the command `headrace` is not installed: install the appliance, or set {NAME_SERVER_VARIABLE}"
        raise StateError(message, "not installed")
    return command


def _free_ports() -> tuple[int, int]:
    """A port for the name server, and one for the broker beside which port - 2 and port + 1 are free too.

    They are below those that the kernel gives to outgoing connections, of which one could take a port before the server does.
    """
    for broker in random.SystemRandom().sample(range(_LOWEST_PORT, _HIGHEST_PORT, 8), 100):
        if all(map(_is_free, (broker - 4, broker - 2, broker, broker + 1))):
            return broker - 4, broker
    raise StateError("no free ports were found", "starting")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
