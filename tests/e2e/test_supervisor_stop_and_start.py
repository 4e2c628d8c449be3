"""Ordered stop, restart, two appliances on one machine, leftovers of a crash: real processes with toy roles."""

import json
import os
import pty
import re
import signal
import stat
from pathlib import Path

import psutil
import pytest

from support.headrace_process import headrace
from support.servers import wait_until
from support.watched import WatchedProcess as HeadraceProcess

pytestmark = pytest.mark.slow


def shared_segments() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith("headrace-")}


def segments_of(data: Path) -> set[str]:
    from ipc.names import instance_hash  # noqa: PLC0415

    return {name for name in shared_segments() if instance_hash(data / "store") in name}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_all_roles_in_order_and_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="ok").wait_ready() as appliance:
        assert segments_of(data)
        assert (data / "store" / "abort").exists()
        appliance.process.send_signal(number)
        assert appliance.wait_end() == 0
        assert appliance.out.splitlines()[-1] == "headrace: stopped"
        assert appliance.err == ""
        assert re.findall(r"role exited role=(\w+) cause='exited with code 0'", appliance.log) == [
            "recover",
            "worker",
            "sink",
        ]
        assert not segments_of(data)
        assert not (data / "store" / "abort").exists()
        assert not (data / "control.sock").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_to_all_processes_is_handled_by_the_supervisor_only(tmp_path: Path, number: signal.Signals) -> None:
    """As from the keyboard, from `timeout`, or when a container is stopped."""
    with HeadraceProcess(tmp_path / "data", toy="ok").wait_ready() as appliance:
        os.killpg(appliance.process.pid, number)
        assert appliance.wait_end() == 0
        assert appliance.out.splitlines()[-1] == "headrace: stopped"
        assert appliance.err == ""
        assert re.findall(r"role exited role=(\w+) cause='exited with code 0'", appliance.log) == [
            "recover",
            "worker",
            "sink",
        ]


def test_terminal_that_is_closed_stops_the_appliance(tmp_path: Path) -> None:
    """SIGHUP reloads the configuration of a service, but ends what runs in a terminal."""
    main, terminal = pty.openpty()
    with HeadraceProcess(tmp_path / "data", toy="ok", stdin=terminal).wait_ready() as appliance:
        appliance.process.send_signal(signal.SIGHUP)
        assert appliance.wait_end() == 0
        assert "headrace: SIGHUP: stopping" in appliance.out
    os.close(terminal)
    os.close(main)


def test_second_interrupt_does_not_hurry_the_stop(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="worker-never-stops").wait_ready() as appliance:
        worker = appliance.pid_of("worker")
        appliance.process.send_signal(signal.SIGINT)
        wait_until(lambda: "SIGINT: stopping" in appliance.out, 60, "the first interrupt")
        appliance.process.send_signal(signal.SIGINT)
        wait_until(lambda: "still stopping: waiting for logger, sink, worker" in appliance.out, 60, "the second one")
        assert appliance.role("sink")["state"] == "running"
        os.kill(worker, signal.SIGKILL)
        assert appliance.wait_end() == 1
        assert "ends: name=sink" in appliance.log


def test_stop_returns_after_everything_has_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="ok").wait_ready() as appliance:
        said = headrace("stop", "--data", data)
        assert (said.returncode, said.stdout) == (0, "the appliance has stopped\n")
        assert appliance.wait_end() == 0


def test_stopped_role_stays_down_until_started(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="ok").wait_ready() as appliance:
        assert headrace("stop", "worker", "--data", data).stdout == "worker is stopped\n"
        assert appliance.role("worker") == {
            "pid": None, "state": "stopped", "restarts": 0, "heartbeat_age_ms": None, "long_call": None,
            "problem": "",
        }  # fmt: skip
        os.kill(appliance.pid_of("sink"), signal.SIGKILL)
        appliance.wait_restarted("sink")
        assert appliance.role("worker")["state"] == "stopped"
        assert headrace("stop", "worker", "--data", data).returncode == 0
        said = headrace("start", "worker", "--data", data).stdout
        assert said == f"worker is running, pid {appliance.pid_of('worker')}\n"
        assert headrace("start", "worker", "--data", data).stdout == said
        assert appliance.stop() == 0


def test_restart_starts_a_new_process(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="ok").wait_ready() as appliance:
        before = appliance.pid_of("worker")
        assert headrace("restart", "worker", "--data", data).returncode == 0
        assert appliance.pid_of("worker") != before
        assert "ends: name=worker" in appliance.log


@pytest.mark.parametrize(
    ("command", "role", "message"),
    [
        ("stop", "borker", "role borker not found"),
        ("stop", "workr", "role workr not found (did you mean worker?); existing roles: logger, recover, sink, worker"),
        (
            "start",
            "recover",
            "recover runs once at startup and cannot be started or stopped on its own; restart the appliance instead",
        ),
        ("restart", "", "role  not found"),
    ],
)
def test_unknown_role_is_refused_with_the_closest_name(tmp_path: Path, command: str, role: str, message: str) -> None:
    with HeadraceProcess(tmp_path / "data", toy="ok").wait_ready():
        said = headrace(command, role, "--data", tmp_path / "data")
        assert said.returncode == 1
        assert said.stderr.startswith(f"headrace: {message}")
        assert said.stderr.count("\n") == 1


def test_next_start_cleans_up_after_a_killed_appliance(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="ok").wait_ready() as first:
        processes = first.processes()
        for process in processes:
            process.kill()
        first.wait_end()
        left = segments_of(data)
        assert left
        assert (data / "control.sock").exists()
    said = headrace("status", "--data", data)
    assert said.returncode == 1
    assert "no appliance is running on" in said.stderr
    with HeadraceProcess(data, toy="ok").wait_ready() as second:
        assert segments_of(data) == left
        assert second.status()["state"] == "running"
        assert second.stop() == 0
    assert not segments_of(data)


def test_next_start_waits_for_draining_children(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="worker-never-stops").wait_ready() as first:
        worker = first.pid_of("worker")
        children = first.processes()[1:]
        first.process.kill()
        psutil.wait_procs([child for child in children if child.name() == "headrace: sink"], timeout=60)
        try:
            with HeadraceProcess(data, toy="ok") as second:
                wait_until(
                    lambda: f"waiting for pid {worker} to release the store" in second.err, 60, "it says that it waits"
                )
                os.kill(worker, signal.SIGKILL)
                second.wait_ready()
        finally:
            for child in children:
                if child.is_running():
                    child.kill()


def test_wait_for_the_store_times_out_and_names_the_pids(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="worker-never-stops").wait_ready() as first:
        worker = first.pid_of("worker")
        children = first.processes()[1:]
        first.process.kill()
        psutil.wait_procs([child for child in children if child.name() == "headrace: sink"], timeout=60)
        try:
            with HeadraceProcess(data, "--set", "storeLockWait=300", toy="ok") as second:
                assert second.wait_end() == 3
                assert f"is in use: {data}/store/lock is locked by pid {worker}; " in second.err
        finally:
            for child in children:
                if child.is_running():
                    child.kill()


def test_wait_for_the_store_can_be_interrupted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="worker-never-stops").wait_ready() as first:
        children = first.processes()[1:]
        first.process.kill()
        try:
            with HeadraceProcess(data, toy="ok") as second:
                wait_until(lambda: "waiting for pid" in second.err, 60, "it says that it waits")
                second.process.send_signal(signal.SIGINT)
                assert second.wait_end() == 1
                assert second.err.endswith("headrace: interrupted\n")
        finally:
            for child in children:
                if child.is_running():
                    child.kill()


def test_closed_standard_output_does_not_stop_the_appliance(tmp_path: Path) -> None:
    data = tmp_path / "data"
    closed = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh"]
    with HeadraceProcess(data, toy="ok", prefix=closed) as appliance:

        def is_running() -> bool:
            said = headrace("status", "--json", "--data", data)
            return said.returncode == 0 and json.loads(said.stdout)["state"] == "running"

        wait_until(is_running, 60, "running")
        assert appliance.stop() == 0


def test_two_appliances_run_side_by_side(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with HeadraceProcess(one, toy="ok").wait_ready() as first, HeadraceProcess(two, toy="ok").wait_ready() as second:
        assert first.status()["data"] == str(one)
        assert second.status()["data"] == str(two)
        assert segments_of(one).isdisjoint(segments_of(two))
        assert first.stop() == 0
        assert second.status()["roles"]["worker"]["state"] == "running"
        assert segments_of(two)
        assert second.stop() == 0


def test_control_socket_is_private_and_its_path_may_be_long(tmp_path: Path) -> None:
    data = tmp_path / ("deep" * 20) / ("deeper" * 20) / "data"
    data.parent.mkdir(parents=True)
    with HeadraceProcess(data, toy="ok").wait_ready() as appliance:
        assert len(str(data / "control.sock")) > 107
        assert stat.S_IMODE((data / "control.sock").stat().st_mode) == 0o600
        assert appliance.status()["state"] == "running"
        assert headrace("stop", "--data", data).returncode == 0


def test_invalid_or_silent_clients_do_not_block_others(tmp_path: Path) -> None:
    import socket  # noqa: PLC0415

    data = tmp_path / "data"
    with HeadraceProcess(data, toy="ok").wait_ready() as appliance:
        clients = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for number, client in enumerate(clients):
            client.connect(str(data / "control.sock"))
            client.sendall([b"", b"{", b"[1]\n", b'{"command": 7}\n', b"\xff\n", b"{}\n"][number % 6])
        assert appliance.status()["state"] == "running"
        for client in clients:
            client.close()
        assert appliance.stop() == 0
