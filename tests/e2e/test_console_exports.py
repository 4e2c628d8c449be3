"""Exports that the console starts: they write exactly once, survive the console, and end when they are stopped or the appliance is."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds
import pytest

from headrace.sync import Message, Producer
from support.appliance import Appliance
from support.console import Browser, first_administrator, is_up
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
LAZY = {
    "mappedFileSizeCommitLog": "1048576",
    "maxMessageSize": "65536",
    "flushCommitLogLeastPages": "100000",
    "flushCommitLogThoroughInterval": "3600000",
}
"""Nothing is flushed: an export waits up to 15 s for what was sent before it began, so that it can be met while it runs."""
WAIT_S = 60


class World:
    """An appliance with a console, in which an administrator is logged in."""

    def __init__(self, appliance: Appliance, port: int) -> None:
        self.appliance = appliance
        self.port = port
        wait_until(lambda: is_up(port), WAIT_S, "console")
        self.admin: Browser = first_administrator(appliance.data / "console", port)

    @property
    def folder(self) -> Path:
        return self.appliance.data / "exports"

    def send(self, count: int) -> None:
        with Producer("producers", self.appliance.name_server) as producer:
            for number in range(count):
                producer.send(Message("Orders", f"order {number}"))

    def start(self, **form: str) -> None:
        page = self.admin.send("/exports", {"target": "orders", "topics": "Orders", **form}, page="/topics")
        assert page.status == 303, page.cause

    def last(self, target: str = "orders") -> dict[str, Any]:
        run: dict[str, Any] = self.admin.read(f"/exports/{target}")["last"]
        return run

    def ended(self, target: str = "orders") -> dict[str, Any]:
        wait_until(lambda: self.last(target)["ended_ms"] is not None, WAIT_S, "the end of the export")
        return self.last(target)

    def start_and_meet(self) -> psutil.Process:
        """An export's process, paused while it waits for the flush, with its limits set."""
        self.start()
        process = psutil.Process(self.last()["pid"])
        badness = Path(f"/proc/{process.pid}/oom_score_adj")
        wait_until(lambda: badness.read_text() == "1000\n", WAIT_S, "the limits of the export")
        process.suspend()
        return process

    def stop(self, process: psutil.Process) -> None:
        """Stops the export whose process is paused."""
        page = self.admin.send("/exports/orders/stop", {"run": str(self.last()["id"])}, page="/topics")
        assert page.status == 303, page.cause
        assert self.last()["state"] == "stopping"
        process.resume()
        assert self.ended()["state"] == "stopped"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    port = free_port()
    with Appliance(tmp_path / "data", settings=LAZY, console_port=port) as appliance:
        yield World(appliance, port)


def rows(target: Path) -> list[str]:
    table = ds.dataset(sorted(map(str, target.glob("dt=*/*.parquet")))).to_table(columns=["body"])
    return sorted(body.decode() for body in table.column("body").to_pylist())


def test_export_is_exactly_once_and_the_next_one_adds_only_new_messages(tmp_path: Path) -> None:
    port = free_port()
    settings = {**LAZY, "flushCommitLogThoroughInterval": "200", "flushIntervalCommitLog": "100"}
    with Appliance(tmp_path / "data", settings=settings, console_port=port) as appliance:
        world = World(appliance, port)
        world.send(20)
        for round_number in (1, 2):
            world.start()
            run = world.ended()
            assert (run["state"], run["done_bytes"]) == ("done", run["total_bytes"]), run
            assert "exported 20 of 20 records" in run["output"][-1]
            assert rows(world.folder / "orders") == sorted([f"order {number}" for number in range(20)] * round_number)
            target = world.admin.read("/exports/orders")["target"]
            assert (target["rows"], target["commits"], target["owner"]) == (20 * round_number, round_number, "")
            world.send(20)
        page = world.admin.send("/exports", {"target": "orders", "topics": "Unknown"}, page="/topics")
        assert (page.status, "the topic Unknown does not exist" in page.cause) == (400, True)
        world.start(format="delta")
        assert "was created with format" in world.ended()["output"][-1]
        assert world.last()["state"] == "failed"


def test_running_export_is_weak_and_survives_a_kill_of_the_console(world: World) -> None:
    world.send(5)
    process = world.start_and_meet()
    assert process.nice() == 19
    assert process.rlimit(psutil.RLIMIT_DATA) == (2 << 30, 2 << 30)
    assert not {name for name in process.environ() if name.startswith(("ROCKETMQ", "HEADRACE", "PYTHON"))}
    console = world.appliance.pid_of("console")
    os.kill(console, signal.SIGKILL)
    world.appliance.wait_restarted("console", console)
    wait_until(lambda: is_up(world.port), WAIT_S, "console again")
    assert (world.last()["pid"], world.last()["state"]) == (process.pid, "running")
    page = world.admin.send("/exports", {"target": "other"}, page="/topics")
    assert (page.status, "the export to orders is running" in page.cause) == (400, True)
    world.stop(process)


def test_stopped_and_killed_exports_are_shown_as_such(world: World) -> None:
    world.send(5)
    process = world.start_and_meet()
    world.stop(process)
    assert not process.is_running()
    world.start_and_meet().kill()
    run = world.ended()
    assert (run["state"], run["output"]) == ("failed", ["killed by SIGKILL"])
    log = world.appliance.data / "logs" / "headrace.log"
    wait_until(
        lambda: "export ended target=orders state=failed exit_code=-9" in log.read_text(), WAIT_S, "the log line"
    )


def test_export_ends_with_the_appliance(world: World) -> None:
    world.send(5)
    process = world.start_and_meet()
    process.resume()
    world.appliance.stop()
    assert not process.is_running()


def test_export_ends_if_the_supervisor_is_killed(tmp_path: Path) -> None:
    port = free_port()
    appliance = Appliance(tmp_path / "data", settings=LAZY, console_port=port)
    try:
        world = World(appliance, port)
        world.send(5)
        process = world.start_and_meet()
        others = [psutil.Process(pid) for pid in appliance.pids() if pid != appliance.process.pid]
        appliance.process.kill()
        process.resume()
        _, alive = psutil.wait_procs(others, timeout=WAIT_S)
        assert alive == []
        assert process in others
    finally:
        appliance.kill()


def test_links_in_the_folder_of_exports_are_refused(world: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    world.folder.mkdir()
    (world.folder / "orders").symlink_to(outside)
    world.start(topics="")
    run = world.ended()
    assert run["state"] == "failed"
    assert "orders is a link or a file, not a folder" in run["output"][-1]
    assert list(outside.iterdir()) == []
    for target in ("..", "../outside", "/tmp/outside", "a/../../b", "-x"):
        page = world.admin.send("/exports", {"target": target}, page="/topics")
        assert (page.status, "is not a folder name" in page.cause) == (400, True)
    assert not (tmp_path / "data" / "exports" / "b").exists()
