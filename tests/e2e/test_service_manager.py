"""What a service manager receives from an appliance with toy roles: real processes and a real datagram socket."""

import os
import re
import select
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.watched import WatchedProcess as HeadraceProcess

pytestmark = pytest.mark.slow

DEADLINE_S = 60


class Manager:
    """The service manager's socket and all lines received, in order."""

    def __init__(self, address: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(str(address))
        self.environment = ("env", f"NOTIFY_SOCKET={address}", "WATCHDOG_USEC=600000")
        self.lines: list[str] = []

    def wait_line(self, pattern: str, since: int = 0) -> int:
        """Waits until a line from number `since` on matches `pattern`, and returns the number of the line after it."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            for number, line in enumerate(self.lines[since:], since + 1):
                if re.match(pattern, line):
                    return number
            assert select.select([self.socket], [], [], max(0.0, deadline - time.monotonic()))[0], (pattern, self.lines)
            self.lines += self.socket.recv(4096).decode().splitlines()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path / "notify")
    with manager.socket:
        yield manager


def test_service_manager_receives_start_watchdog_and_stop(tmp_path: Path, manager: Manager) -> None:
    with HeadraceProcess(tmp_path / "data", toy="ok", prefix=manager.environment).wait_ready() as appliance:
        ready = manager.wait_line("READY=1")
        running = manager.wait_line("STATUS=running, 3 roles$", ready)
        first = manager.wait_line("WATCHDOG=1", running)
        manager.wait_line("WATCHDOG=1", first)
        appliance.process.send_signal(signal.SIGTERM)
        manager.wait_line("STOPPING=1", first)
        assert appliance.wait_end() == 0


def test_watchdog_pauses_while_a_role_is_silent_and_resumes_when_it_was_restarted(
    tmp_path: Path, manager: Manager
) -> None:
    with HeadraceProcess(
        tmp_path / "data", "--set", "heartbeatTimeout=1000", toy="ok", prefix=manager.environment
    ).wait_ready() as appliance:
        manager.wait_line("WATCHDOG=1", manager.wait_line("READY=1"))
        os.kill(appliance.pid_of("worker"), signal.SIGSTOP)
        silent = manager.wait_line("STATUS=running, 3 roles; silent: .*worker")
        after = manager.wait_line("STATUS=", silent)
        assert "WATCHDOG=1" not in manager.lines[silent : after - 1]
        recovered = manager.wait_line("STATUS=running, 3 roles$", silent)
        manager.wait_line("WATCHDOG=1", recovered)
        assert appliance.stop() == 0
