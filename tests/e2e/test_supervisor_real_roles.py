"""The appliance with its real roles: start, status, kill and restart of each role, stop, and the files it leaves."""

import json
import os
import re
import signal
import socket
from pathlib import Path

import psutil
import pytest

from appliance.configuration_reader import Sources, read_configuration
from appliance.role_table import appliance_roles, broker_roles
from headrace.protocol.bodies.properties_text import decode_properties_text
from headrace.protocol.request_code import RequestCode
from ipc.control_layout import CELLS
from ipc.names import instance_hash
from support.bare_requests import ask
from support.headrace_process import headrace
from support.plain_sender import PlainSender
from support.scheduling import HAS_SLICES, scheduling_of
from support.servers import free_ports, wait_until
from support.watched import WatchedProcess as HeadraceProcess

pytestmark = pytest.mark.slow

SMALL = (
    "--set", "mappedFileSizeCommitLog=5242880", "--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=4000",
)  # fmt: skip
ROLES = ("logger", "nameserver", "housekeeper", "flush", "dispatch", "ha", "broker")


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def test_start_prints_readiness_and_listening_addresses(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", *SMALL).wait_ready() as appliance:
        name_server, broker = appliance.ports
        lines = appliance.out.splitlines()
        assert f"headrace: name server listening on 127.0.0.1:{name_server}" in lines
        assert f"headrace: broker listening on 127.0.0.1:{broker}" in lines
        assert f"headrace: VIP channel listening on 127.0.0.1:{broker - 2}" in lines
        assert f"headrace: HA listening on 127.0.0.1:{broker + 1}" in lines
        assert re.fullmatch(r"headrace: ready in \d+\.\d\d s", lines[-1])
        assert all(connects(port) for port in (name_server, broker, broker - 2, broker + 1))
        assert appliance.err == ""
        assert appliance.stop() == 0
        assert appliance.err == ""


def test_status_under_kills(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", *SMALL).wait_ready() as appliance:
        status = appliance.status()
        titles = {process.pid: process.cmdline()[0] for process in appliance.processes()}
        assert titles[status["pid"]] == "headrace: supervisor"
        assert status["pid"] == appliance.process.pid
        assert set(status["roles"]) == {*ROLES, "recover"}
        for role in ROLES:
            said = status["roles"][role]
            assert titles[said["pid"]] == f"headrace: {role}"
            assert (said["state"], said["restarts"]) == ("running", 0)
            assert 0 <= said["heartbeat_age_ms"] < 30_000
        assert status["roles"]["recover"]["state"] == "ended"
        assert status["roles"]["recover"]["pid"] is None
        assert len(titles) == len(ROLES) + 1
        assert set(status["offsets"]) == {cell.name for cell in CELLS}
        wait_until(lambda: appliance.status()["lag"] == {"flush": 0, "dispatch": 0}, 60, "flush and dispatch")
        text = headrace("status", "--data", tmp_path / "data").stdout
        for role in ROLES:
            assert re.search(rf"{role} +running +{status['roles'][role]['pid']} ", text)
        assert appliance.stop() == 0


def test_killed_role_is_restarted_while_others_keep_running(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", *SMALL).wait_ready() as appliance:
        for role in ROLES:
            before = appliance.status()["roles"]
            os.kill(before[role]["pid"], signal.SIGKILL)
            appliance.wait_restarted(role)
            after = appliance.status()["roles"]
            assert {name: after[name]["pid"] for name in ROLES if name != role} == {
                name: before[name]["pid"] for name in ROLES if name != role
            }
        assert all(connects(port) for port in appliance.ports)
        assert appliance.stop() == 0
        assert not (tmp_path / "data" / "store" / "abort").exists()


def test_log_names_the_client_whose_request_crashed_the_broker(tmp_path: Path) -> None:
    data, marks = tmp_path / "data", tmp_path / "marks"
    marks.mkdir()
    dies_once = ("HEADRACE_FAULT_POINT=commit_log.copied", f"HEADRACE_FAULT_POINT_ONCE={marks}")
    with HeadraceProcess(data, *SMALL, prefix=dies_once).wait_ready() as appliance:
        port = appliance.ports[1]
        with (
            socket.create_connection(("127.0.0.1", port), 30) as idle,
            socket.create_connection(("127.0.0.1", port), 30) as client,
        ):
            client.sendall(PlainSender(port).request(1, 100).encode())
            assert client.recv(1) == b""
            culprit, bystander = client.getsockname()[1], idle.getsockname()[1]
        appliance.wait_restarted("broker")
        assert re.search(
            rf"role died role=broker cause='killed by SIGKILL' uptime_ms=\d+ client=127\.0\.0\.1:{culprit}\n",
            appliance.log,
        )
        assert f":{bystander}" not in appliance.log
        with PlainSender(port) as sender:
            sender.send(2)
        os.kill(appliance.pid_of("broker"), signal.SIGKILL)
        appliance.wait_restarted("broker", 2)
        assert re.search(r"role died role=broker cause='killed by SIGKILL' uptime_ms=\d+\n", appliance.log)
        assert appliance.stop() == 0


def test_stopped_broker_stays_down_until_started(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, *SMALL).wait_ready() as appliance:
        assert headrace("stop", "broker", "--data", data).returncode == 0
        assert not connects(appliance.ports[1])
        assert connects(appliance.ports[0])
        assert headrace("start", "broker", "--data", data).returncode == 0
        assert connects(appliance.ports[1])
        assert appliance.stop() == 0


def test_roles_stop_in_the_order_of_the_data_flow(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", *SMALL).wait_ready() as appliance:
        assert headrace("stop", "--data", tmp_path / "data").returncode == 0
        ends = re.findall(r"role exited role=(\w+) cause='exited with code 0'", appliance.log)
        assert ends == ["recover", "broker", "ha", "dispatch", "flush", "housekeeper", "nameserver"]


def test_signal_to_the_process_group_stops_roles_in_order(tmp_path: Path) -> None:
    """As on a container stop or from a service manager or `timeout`: every process gets the signal at once."""
    data = tmp_path / "data"
    with HeadraceProcess(data, *SMALL).wait_ready() as appliance:
        os.killpg(appliance.process.pid, signal.SIGTERM)
        assert appliance.wait_end() == 0
        assert (appliance.out.splitlines()[-1], appliance.err) == ("headrace: stopped", "")
        ends = re.findall(r"role exited role=(\w+) cause='exited with code 0'", appliance.log)
        assert ends == ["recover", "broker", "ha", "dispatch", "flush", "housekeeper", "nameserver"]
        assert not (data / "store" / "abort").exists()


def test_killed_supervisor_leaves_no_process_and_next_start_recovers(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, *SMALL).wait_ready() as first:
        children = first.processes()[1:]
        first.process.kill()
        first.wait_end()
        with HeadraceProcess(data, *SMALL, ports=first.ports).wait_ready() as second:
            _gone, alive = psutil.wait_procs(children, timeout=60)
            assert alive == []
            assert "clean=False" in second.log
            assert second.stop() == 0
    assert not any(instance_hash(data / "store") in name for name in os.listdir("/dev/shm"))


def test_two_appliances_run_on_one_machine(tmp_path: Path) -> None:
    with (
        HeadraceProcess(tmp_path / "one", *SMALL).wait_ready() as one,
        HeadraceProcess(tmp_path / "two", *SMALL).wait_ready() as two,
    ):
        assert one.stop() == 0
        assert all(connects(port) for port in two.ports)
        assert two.status()["state"] == "running"
        assert two.stop() == 0


def test_disabled_roles_do_not_run(tmp_path: Path) -> None:
    name_server, broker = free_ports()
    arguments = ("--set", "nameserverEnable=false", "--set", "haEnable=false", "--set", "namesrvAddr=127.0.0.1:1")
    with HeadraceProcess(tmp_path / "data", *SMALL, *arguments, ports=(name_server, broker)).wait_ready() as appliance:
        assert set(appliance.status()["roles"]).isdisjoint({"nameserver", "ha"})
        assert not connects(name_server)
        assert appliance.stop() == 0


@pytest.mark.parametrize("flush_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_flush_has_short_slices_where_answers_wait_for_it(flush_type: str, tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", *SMALL, "--set", f"flushDiskType={flush_type}").wait_ready() as appliance:
        has_short = scheduling_of(appliance.pid_of("flush")).slice_ns == 100_000
        assert has_short == (HAS_SLICES and flush_type == "SYNC_FLUSH")
        assert appliance.stop() == 0


def test_every_json_log_line_is_an_object(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", *SMALL, "--set", "logFormat=json").wait_ready() as appliance:
        assert appliance.stop() == 0
        events = [json.loads(line) for line in appliance.log.splitlines()]
    assert {event["role"] for event in events} >= {"supervisor", "recover", "nameserver", "broker"}


def test_running_roles_equal_the_role_table(tmp_path: Path) -> None:
    configuration = read_configuration(Sources(data=str(tmp_path)))
    table = {role.name for role in (*appliance_roles(configuration), *broker_roles(configuration.brokers[0]))}
    assert table == {*ROLES, "recover", "console"}


@pytest.mark.parametrize("role", ["housekeeper", "broker"])
def test_repeatedly_killed_role_is_restarted_each_time(tmp_path: Path, role: str) -> None:
    with HeadraceProcess(tmp_path / "data", *SMALL).wait_ready() as appliance:
        for restarts in (1, 2, 3):
            os.kill(appliance.pid_of(role), signal.SIGKILL)
            appliance.wait_restarted(role, restarts)
        wait_until(lambda: connects(appliance.ports[1]), 60, "the broker's port")
        assert appliance.stop() == 0


def test_options_changed_at_run_time_reach_all_roles_and_survive_restarts(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", *SMALL).wait_ready() as appliance:
        port = appliance.ports[1]
        body = b"fileReservedTime=24\nflushIntervalCommitLog=77\nbrokerPermission=4\n"
        assert ask(port, RequestCode.UPDATE_BROKER_CONFIG, body).code == 0
        for role in ("flush", "housekeeper"):
            pattern = rf" {role}\[.*changed options applied fileReservedTime=24 flushIntervalCommitLog=77"
            wait_until(lambda pattern=pattern: re.search(pattern, appliance.log), 60, pattern)
        for role in ("flush", "broker"):
            os.kill(appliance.pid_of(role), signal.SIGKILL)
            appliance.wait_restarted(role)
        wait_until(lambda: appliance.log.count("changed options applied") == 3, 60, "the new flush follows them")
        shown = decode_properties_text(ask(port, RequestCode.GET_BROKER_CONFIG).body)
        assert [shown[key] for key in ("fileReservedTime", "flushIntervalCommitLog", "brokerPermission")] == [
            "24",
            "77",
            "4",
        ]
        assert ask(port, RequestCode.UPDATE_BROKER_CONFIG, b"fileReservedTime=25").code == 0
        wait_until(lambda: "changed options applied fileReservedTime=25" in appliance.log, 60, "the next change")
        assert appliance.stop() == 0
