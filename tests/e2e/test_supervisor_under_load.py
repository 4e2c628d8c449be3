"""Status and restarts under load: real roles, SYNC_FLUSH, a producer that retries."""

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.headrace_process import headrace
from support.plain_sender import PlainSender
from support.servers import wait_until
from support.watched import WatchedProcess as HeadraceProcess

pytestmark = pytest.mark.slow

SMALL = (
    "--set", "mappedFileSizeCommitLog=5242880", "--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=4000",
    "--set", "flushDiskType=SYNC_FLUSH",
)  # fmt: skip


class Load:
    """Sends messages 0, 1, 2 … in a thread until it is told to end."""

    def __init__(self, port: int) -> None:
        self.sender = PlainSender(port)
        self.error: BaseException | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        try:
            with self.sender:
                while not self._ends.is_set():
                    self.sender.send(number)
                    number += 1
        except BaseException as error:  # noqa: BLE001  it is raised in the test's own thread
            self.error = error

    def wait_for_more(self, count: int) -> None:
        """Waits until this many more are acknowledged."""
        goal = len(self.sender.acknowledged) + count
        wait_until(lambda: self.error or len(self.sender.acknowledged) >= goal, 60, f"{count} more messages")
        if self.error:
            raise self.error

    def end(self) -> None:
        """Stops sending; waits for the last message."""
        self._ends.set()
        self._thread.join()

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        if self.error:
            raise self.error


def records(data: Path) -> list[dict[str, Any]]:
    """All records of the log, as printed by `store dump`."""
    lines = map(json.loads, headrace("store", "dump", "--json", data / "store").stdout.splitlines())
    return [line for line in lines if line["kind"] == "record"]


def assert_in_order(data: Path) -> None:
    """Checks that `store verify` finds nothing."""
    said = headrace("store", "verify", "--slots", "1000", "--entries", "4000", data / "store")
    assert said.returncode == 0, said.stdout


def test_status_agrees_with_the_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, *SMALL).wait_ready() as appliance:
        with Load(appliance.ports[1]) as load:
            load.wait_for_more(300)
            during: dict[str, Any] = {}

            def has_rates() -> bool:
                during.update(appliance.status())
                return bool(during["rates"]["wrote_bytes"] > 0)

            wait_until(has_rates, 60, "rates, which are counted once a second")
            load.wait_for_more(1)
        sent = len(load.sender.acknowledged)
        assert load.sender.attempts == sent
        wait_until(lambda: appliance.status()["lag"] == {"flush": 0, "dispatch": 0}, 60, "flush and dispatch")
        # The broker counts ten times a second.
        wait_until(lambda: appliance.status()["counters"]["broker"]["messages_in"] == sent, 60, "all counted")
        after = appliance.status()
        log = records(data)
        assert len(log) == sent
        end = log[-1]["offset"] + log[-1]["size"]
        for cell in ("wrote_offset", "flushed_offset", "reput_offset"):
            assert after["offsets"][cell] == end
        assert 0 < during["offsets"]["wrote_offset"] <= end
        assert all(0 <= behind <= end for behind in during["lag"].values())
        assert appliance.stop() == 0


@pytest.mark.parametrize("role", ["broker", "dispatch", "flush", "housekeeper", "nameserver", "ha", "logger"])
def test_role_killed_under_load_loses_no_acknowledged_message(tmp_path: Path, role: str) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, *SMALL).wait_ready() as appliance:
        with Load(appliance.ports[1]) as load:
            for restarts in (1, 2):
                load.wait_for_more(50)
                os.kill(appliance.pid_of(role), signal.SIGKILL)
                appliance.wait_restarted(role, restarts)
            load.wait_for_more(50)
        others = {name: said["restarts"] for name, said in appliance.status()["roles"].items() if name != role}
        assert set(others.values()) == {0}
        assert appliance.stop() == 0
    assert_in_order(data)
    stored = Counter(int(record["properties"]["KEYS"]) for record in records(data))
    acknowledged = set(load.sender.acknowledged)
    assert acknowledged <= set(stored)
    # Only a message that was resent after a lost answer may be stored twice.
    assert sum(stored.values()) <= load.sender.attempts
    assert not (data / "store" / "abort").exists()


def test_killing_all_processes_loses_no_acknowledged_message(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, *SMALL).wait_ready() as appliance, Load(appliance.ports[1]) as load:
        load.wait_for_more(200)
        for process in appliance.processes():
            process.kill()
        appliance.wait_end()
        with HeadraceProcess(data, *SMALL, ports=appliance.ports).wait_ready() as again:
            load.wait_for_more(50)
            wait_until(lambda: again.status()["lag"] == {"flush": 0, "dispatch": 0}, 60, "flush and dispatch")
            load.end()
            assert again.stop() == 0
    assert_in_order(data)
    stored = Counter(int(record["properties"]["KEYS"]) for record in records(data))
    assert set(load.sender.acknowledged) <= set(stored)
