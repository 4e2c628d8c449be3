"""Several brokers in one appliance, as an operator sees them: one that cannot start, stops and starts, and names."""

import re
import socket
from pathlib import Path
from typing import Any

import pytest

from ipc.names import instance_hash
from support.headrace_process import HeadraceProcess, headrace
from support.servers import free_ports
from support.several_brokers import write_broker_list

pytestmark = pytest.mark.slow

SMALL = ("--set", "mappedFileSizeCommitLog=8388608", "--set", "queueTableCapacity=64")


def start(data: Path, names: str, *more: str) -> tuple[HeadraceProcess, dict[str, int]]:
    """An appliance with these brokers, and their ports."""
    ports = {name: free_ports() for name in names.split()}
    tables: list[dict[str, Any]] = [{"name": name, "port": port} for name, (_, port) in ports.items()]
    toml = write_broker_list(data.with_name("appliance.toml"), tables)
    first = next(iter(ports.values()))
    return HeadraceProcess(data, "--config", toml, *SMALL, *more, ports=first), {
        name: port for name, (_, port) in ports.items()
    }


def segments(store: Path) -> list[Path]:
    return list(Path("/dev/shm").glob(f"headrace-{instance_hash(store)}-*"))


def test_broker_that_cannot_start_does_not_take_the_others_down(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "b" / "store").mkdir(parents=True)
    (data / "b" / "store" / "abort").symlink_to("/dev/null")
    process, ports = start(data, "a b")
    with process.wait_ready() as appliance:
        assert "b could not start; the other brokers continue: data folder: " in appliance.err
        failed = appliance.status()["brokers"]["b"]
        assert (failed["state"], failed["offsets"]) == ("failed", {})
        assert "is a symbolic link" in failed["reason"]
        assert f"b: failed, ASYNC_MASTER, 127.0.0.1:{ports['b']}" in headrace("status", "--data", data).stdout
        again = headrace("start", "b", "--data", data)
        assert again.returncode == 1
        assert "b could not start: data folder: " in again.stderr

        (data / "b" / "store" / "abort").unlink()
        done = headrace("start", "b", "--data", data)
        assert (done.returncode, done.stdout) == (0, "b is running\n")
        assert appliance.role("b/broker")["state"] == "running"
        socket.create_connection(("127.0.0.1", ports["b"])).close()
        assert appliance.stop() == 0
    for name in "ab":
        assert not (data / name / "store" / "abort").exists()
        assert not segments(data / name / "store")


def test_appliance_ends_when_no_broker_can_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in "ab":
        (data / name / "store").mkdir(parents=True)
        (data / name / "store" / "abort").symlink_to("/dev/null")
    process, _ = start(data, "a b")
    with process as appliance:
        assert appliance.wait_end() == 3
        assert "b/store/abort is a symbolic link" in appliance.err


def test_broker_stops_starts_and_restarts_by_itself(tmp_path: Path) -> None:
    data = tmp_path / "data"
    process, ports = start(data, "a b")
    with process.wait_ready() as appliance:
        of_a = {name: role for name, role in appliance.status()["roles"].items() if name.startswith("a/")}
        assert (data / "b" / "store" / "abort").exists()

        assert headrace("stop", "b", "--data", data).stdout == "b is stopped\n"
        assert appliance.status()["brokers"]["b"]["state"] == "stopped"
        assert not (data / "b" / "store" / "abort").exists()
        assert not segments(data / "b" / "store")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports["b"]))
        refused = headrace("restart", "b/flush", "--data", data)
        assert (refused.returncode, refused.stderr) == (1, "headrace: b is stopped; start it with: headrace start b\n")
        # Its store is free for others meanwhile.
        delivered = headrace("store", "deliver-timers", data, "--broker", "b", *SMALL[:2])
        assert "0 messages delivered" in delivered.stdout, delivered.stderr

        assert headrace("start", "b", "--data", data).stdout == "b is running\n"
        assert headrace("restart", "b", "--data", data).stdout == "b is running\n"
        assert re.match(r"b/flush is running, pid \d+\n", headrace("restart", "b/flush", "--data", data).stdout)
        assert "did you mean b/flush?" in headrace("stop", "b/flus", "--data", data).stderr

        status = appliance.status()
        assert {name: status["roles"][name]["pid"] for name in of_a} == {n: role["pid"] for n, role in of_a.items()}
        assert set(status["brokers"]) == {"a", "b"}
        assert status["brokers"]["b"]["store"] == str(data / "b" / "store")
        assert appliance.stop() == 0
        assert "broker stopped broker=b clean=true" in appliance.log
        assert re.search(r" b/recover\[", appliance.log)
        assert re.search(r" b/broker\[.*broker running", appliance.log)


def test_commands_about_a_store_ask_which_broker_is_meant(tmp_path: Path) -> None:
    data = tmp_path / "data"
    process, _ = start(data, "a b")
    with process.wait_ready() as appliance:
        for is_running in (True, False):
            which = headrace("filter", "list", "--data", data)
            assert which.stderr == f"headrace: {data} has several brokers; choose one with --broker: a, b\n"
            assert headrace("filter", "list", "--data", data, "--broker", "b").returncode == 0
            verified = headrace("store", "verify", data, "--broker", "b")
            assert verified.returncode == 0, verified.stderr
            assert "has no broker c; existing brokers: a, b" in headrace("store", "dump", data, "--broker", "c").stderr
            if is_running:
                assert appliance.stop() == 0
    hint = headrace("store", "verify", data).stderr
    assert f"did you mean {data}/a/store or {data}/b/store?" in hint
