"""The role `console`: it never stands in the way of brokers."""

import os
import resource
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from support.appliance import HEADRACE, Appliance
from support.console import first_administrator, is_up
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
SMALL = {"mappedFileSizeCommitLog": "16777216"}


def test_console_lists_topics_and_is_restarted_after_a_kill(tmp_path: Path) -> None:
    port = free_port()
    with Appliance(tmp_path / "data", settings=SMALL, console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        browser = first_administrator(appliance.data / "console", port)
        topics = browser.get("/api/v1/topics?kind=all").json()["topics"]
        assert "TBW102" in [row["topic"] for row in topics["rows"]]
        broker, console = appliance.pid_of("broker"), appliance.pid_of("console")
        assert Path(f"/proc/{console}/oom_score_adj").read_text() == "500\n"
        assert resource.prlimit(console, resource.RLIMIT_DATA) == (1 << 30, 1 << 30)
        wait_until(lambda: f"console at http://127.0.0.1:{port}/" in appliance.log.read_text(), 15, "its address")
        os.kill(console, signal.SIGKILL)
        appliance.wait_restarted("console", console)
        wait_until(lambda: is_up(port), 30, "console again")
        assert appliance.pid_of("broker") == broker


def test_appliance_starts_while_the_console_s_port_is_in_use_and_the_console_follows(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        appliance = Appliance(tmp_path / "data", settings=SMALL, console_port=port)
        with appliance:
            wait_until(
                lambda: "in use" in appliance.status()["roles"]["console"]["problem"], 30, "the problem in status"
            )
            assert appliance.status()["state"] == "running"
            assert (
                f"port {port} of 127.0.0.1 is in use" in appliance.run("status", "--data", str(appliance.data)).stdout
            )
            said = "the console is not available; the supervisor tries again: port"
            wait_until(lambda: said in appliance.log.read_text(), 15, "the warning")
            assert "headrace: console at" not in appliance.log.read_text()
            for command in ("start", "restart"):
                refused = appliance.run(command, "console", "--data", str(appliance.data), check=False)
                assert f"console could not start: port {port} of 127.0.0.1 is in use" in refused.stderr
            taken.close()
            wait_until(lambda: is_up(port), 60, "console once the port is free")
            assert appliance.status()["roles"]["console"]["problem"] == ""


def test_appliance_stops_cleanly_while_the_console_cannot_start(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        Appliance(tmp_path / "data", settings=SMALL, console_port=taken.getsockname()[1]) as appliance,
    ):
        wait_until(lambda: appliance.status()["roles"]["console"]["problem"] != "", 30, "the problem in status")
        appliance.stop()


def test_console_alone_serves_a_cluster_and_stops_on_sigterm(tmp_path: Path) -> None:
    port = free_port()
    with Appliance(tmp_path / "data", settings=SMALL) as appliance:
        command = [
            HEADRACE,
            "console",
            "--namesrv",
            appliance.name_server,
            "--port",
            str(port),
            "--data",
            tmp_path / "web",
        ]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as console:
            try:
                wait_until(lambda: is_up(port), 30, "console")
                assert first_administrator(tmp_path / "web", port).get("/topics").status == 200
                console.send_signal(signal.SIGTERM)
                assert console.wait(30) == 0
            finally:
                console.kill()


def test_only_the_console_s_process_imports_its_libraries(tmp_path: Path) -> None:
    port = free_port()
    with Appliance(tmp_path / "data", settings=SMALL, console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        roles = appliance.status()["roles"]
        mapped = {
            name: Path(f"/proc/{role['pid']}/maps").read_text()
            for name, role in roles.items()
            if role["pid"] is not None
        }
        mapped["supervisor"] = Path(f"/proc/{appliance.process.pid}/maps").read_text()
    assert {name for name, maps in mapped.items() if "httptools" in maps} == {"console"}
