import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.managed_role import Phase
from appliance.service_manager import ServiceManager
from appliance.state_line import RoleState, format_state_line


class Manager:
    """The socket of a service manager, and what it received."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(self.address)

    def received(self) -> list[str]:
        lines: list[str] = []
        while True:
            try:
                lines += self.socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return lines


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path)
    with manager.socket:
        yield manager


def notifier(manager: Manager, **environment: str) -> ServiceManager:
    return ServiceManager({"NOTIFY_SOCKET": manager.address, **environment})


def fill(manager: Manager) -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as client,
        contextlib.suppress(BlockingIOError),
    ):
        while True:
            client.sendto(b"other", manager.address)


def report(service_manager: ServiceManager, now_ms: int, status: str = "running", **changes: bool) -> None:
    service_manager.report(now_ms, status, **{"is_healthy": True, "is_changing": False, **changes})


def test_ready_and_stopping_are_sent(manager: Manager) -> None:
    service_manager = notifier(manager)
    service_manager.ready()
    service_manager.stopping()
    assert manager.received() == ["READY=1", "STOPPING=1"]


def test_abstract_socket_is_used() -> None:
    name = f"headrace-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}")
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert receiver.recv(100) == b"READY=1"


def test_missing_service_manager_is_ignored(tmp_path: Path) -> None:
    assert not ServiceManager({}).is_present
    ServiceManager({}).ready()
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready()


def test_full_socket_does_not_block_the_supervisor(manager: Manager) -> None:
    service_manager = notifier(manager)
    for _ in range(2_000):  # more than the socket's queue holds
        service_manager.ready()
    assert set(manager.received()) == {"READY=1"}


def test_states_that_a_full_socket_refused_are_sent_when_it_has_room(manager: Manager) -> None:
    service_manager = notifier(manager, WATCHDOG_USEC="3000000", WATCHDOG_PID=str(os.getpid()))
    fill(manager)
    service_manager.ready()
    report(service_manager, 0)
    assert set(manager.received()) == {"other"}
    report(service_manager, 250)
    report(service_manager, 500)
    assert manager.received() == ["READY=1", "STATUS=running", "WATCHDOG=1"]


def test_status_and_watchdog_that_a_full_socket_refused_are_sent_in_the_next_round(manager: Manager) -> None:
    service_manager = notifier(manager, WATCHDOG_USEC="3000000", WATCHDOG_PID=str(os.getpid()))
    fill(manager)
    report(service_manager, 0)
    assert set(manager.received()) == {"other"}
    report(service_manager, 250)
    assert manager.received() == ["STATUS=running", "WATCHDOG=1"]


def test_status_of_recovered_roles_is_sent_before_the_next_watchdog(manager: Manager) -> None:
    service_manager = notifier(manager, WATCHDOG_USEC="3000", WATCHDOG_PID=str(os.getpid()))
    report(service_manager, 0, "running; silent: broker", is_healthy=False)
    report(service_manager, 250, "running")
    assert manager.received() == ["STATUS=running; silent: broker", "STATUS=running", "WATCHDOG=1"]


def test_status_is_sent_when_it_changes_and_at_most_once_per_second(manager: Manager) -> None:
    service_manager = notifier(manager)
    report(service_manager, 0, "starting")
    report(service_manager, 250, "running")
    assert manager.received() == ["STATUS=starting"]
    report(service_manager, 1_000, "running")
    report(service_manager, 9_000, "running")
    assert manager.received() == ["STATUS=running"]


def test_watchdog_is_sent_three_times_per_period_while_all_roles_are_healthy(manager: Manager) -> None:
    service_manager = notifier(manager, WATCHDOG_USEC="3000000", WATCHDOG_PID=str(os.getpid()))
    for now_ms in range(0, 3_000, 250):
        report(service_manager, now_ms)
    assert manager.received().count("WATCHDOG=1") == 3
    for now_ms in range(3_000, 9_000, 250):
        report(service_manager, now_ms, is_healthy=False)
    assert "WATCHDOG=1" not in manager.received()
    report(service_manager, 9_000)
    assert "WATCHDOG=1" in manager.received()


@pytest.mark.parametrize("pid", ["1", "not a pid"])
def test_watchdog_of_another_process_is_not_served(manager: Manager, pid: str) -> None:
    service_manager = notifier(manager, WATCHDOG_USEC="3000000", WATCHDOG_PID=pid)
    report(service_manager, 0)
    assert manager.received() == ["STATUS=running"]


@pytest.mark.parametrize("usec", ["", "-5", "much", "0"])
def test_invalid_watchdog_period_disables_it(manager: Manager, usec: str) -> None:
    service_manager = notifier(manager, WATCHDOG_USEC=usec)
    report(service_manager, 0)
    assert manager.received() == ["STATUS=running"]


def test_timeout_is_extended_while_a_start_or_stop_makes_progress(manager: Manager) -> None:
    service_manager = notifier(manager)
    for now_ms in range(0, 10_000, 250):
        report(service_manager, now_ms, is_changing=True)
    assert manager.received().count("EXTEND_TIMEOUT_USEC=30000000") == 2
    report(service_manager, 20_000, is_changing=True, is_healthy=False)
    report(service_manager, 30_000, is_changing=False)
    assert manager.received() == []


RUNNING = [RoleState("flush", Phase.RUNNING, False), RoleState("recover", Phase.ENDED, False)]


@pytest.mark.parametrize(
    ("state", "roles", "failed", "line"),
    [
        ("running", RUNNING, [], "running, 1 role"),
        (
            "starting",
            [RoleState("recover", Phase.RUNNING, False, "recovery")],
            [],
            "starting; busy: recover (recovery)",
        ),
        ("starting", [RoleState("broker", Phase.WAITING, False)], [], "starting"),
        ("running", [*RUNNING, RoleState("broker", Phase.WAITING, False)], [], "running, 1 role; down: broker"),
        ("running", [*RUNNING, RoleState("ha", Phase.STOPPED, False)], [], "running, 1 role; stopped: ha"),
        ("running", [RoleState("broker", Phase.RUNNING, True)], [], "running, 1 role; silent: broker"),
        ("running", RUNNING, ["broker-b"], "running, 1 role; failed: broker-b"),
        ("stopping", RUNNING, [], "stopping; waiting for flush"),
        ("stopping", [RoleState("flush", Phase.STOPPED, False)], [], "stopping; waiting for cleanup"),
    ],
)
def test_state_line_shows_what_an_operator_must_see(
    state: str, roles: list[RoleState], failed: list[str], line: str
) -> None:
    assert format_state_line(state, roles, failed) == line


def test_role_is_healthy_unless_it_is_silent_or_down() -> None:
    healthy = {phase for phase in Phase if RoleState("broker", phase, False).is_healthy}
    assert healthy == set(Phase) - {Phase.WAITING}
    assert not RoleState("broker", Phase.RUNNING, True).is_healthy
    assert all(RoleState("console", phase, True, is_optional=True).is_healthy for phase in Phase)
