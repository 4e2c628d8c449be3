"""Each role is killed repeatedly while the official client sends with SYNC_FLUSH: nothing is lost or duplicated."""

import os
import random
import signal
from datetime import datetime
from pathlib import Path

import pytest

from support.client import Client
from support.crash import SETTINGS, Load, check_indexes, check_log, check_pulled, rounds, segments, verify
from support.java import Java
from support.servers import wait_until
from support.watched import WatchedAppliance as Appliance

KILLS = rounds(short=2, full=10)
FLUSH_TIMEOUT_S = 50.0  # limit: here a broker waits a minute for a flush that does not come
ROLES = ("broker", "dispatch", "flush", "housekeeper", "ha", "nameserver", "logger")

pytestmark = pytest.mark.timeout(300 + 60 * KILLS)


@pytest.mark.parametrize("role", ROLES)
def test_killed_role_is_restarted_without_message_loss(
    role: str, java: Java, tmp_path: Path, chance: random.Random
) -> None:
    with Appliance(tmp_path / "data", settings=SETTINGS) as appliance:
        others_before = {name: said["pid"] for name, said in appliance.status()["roles"].items() if name != role}
        # Clients depend on no role but the broker: they need no retry however long another role takes to restart.
        with Load(java, appliance, tmp_path, timeout_ms=6000 if role == "broker" else 60_000) as load:
            for _ in range(KILLS):
                load.wait_for_more(chance.randrange(1, 500))
                pid = appliance.pid_of(role)
                os.kill(pid, signal.SIGKILL)
                appliance.wait_restarted(role, pid)
            load.wait_for_more(100)
        said = appliance.status()["roles"]
        assert said[role]["restarts"] == KILLS
        assert {name: said[name]["pid"] for name in others_before} == others_before
        journal = load.journal()
        assert journal.acknowledged.keys() == journal.tried.keys()
        if role != "broker":
            assert not journal.failed
        copies = check_log(appliance.store, journal)
        check_pulled(Client(java, appliance), copies)
        verify(appliance.store)  # while it is running
    verify(appliance.store)
    check_indexes(appliance.store, tmp_path / "scratch")
    assert check_log(appliance.store, journal) == copies
    assert not segments(appliance.store)
    assert not (appliance.store / "abort").exists()


@pytest.mark.parametrize("everything", [False, True], ids=["supervisor", "all-at-once"])
def test_killed_appliance_restarts_without_message_loss(
    everything: bool, java: Java, tmp_path: Path, chance: random.Random
) -> None:
    data = tmp_path / "data"
    appliance = Appliance(data, settings=SETTINGS)
    try:
        with Load(java, appliance, tmp_path) as load:
            for _ in range(KILLS):
                load.wait_for_more(chance.randrange(1, 500))
                if everything:
                    appliance.kill()
                else:
                    # The roles that are left drain and hold the store until they have; the next start waits for that.
                    appliance.process.kill()
                    appliance.process.wait()
                appliance = Appliance(data, settings=SETTINGS, ports=appliance.ports)
            load.wait_for_more(100)
        journal = load.journal()
        assert journal.acknowledged.keys() == journal.tried.keys()
        if not everything:
            # Without a supervisor, what the broker has accepted is still flushed, and the broker does not wait in vain.
            assert not journal.unsafe
            assert max(drains_s(data)) < FLUSH_TIMEOUT_S
        wait_until(lambda: not any(appliance.status()["lag"].values()), 60, "flush and dispatch")
        copies = check_log(appliance.store, journal)
        check_pulled(Client(java, appliance), copies)
        appliance.stop()
        # What processes wrote survives them: no index is built again, and only the last batch is dispatched again.
        log = (data / "logs" / "headrace.log").read_text()
        assert "IndexFile discarded" not in log
        assert log.count("clean=False dispatched=True") == KILLS
    finally:
        appliance.kill()
    verify(appliance.store)
    check_indexes(appliance.store, tmp_path / "scratch")
    assert check_log(appliance.store, journal) == copies
    assert not segments(appliance.store)
    assert not (appliance.store / "abort").exists()


def drains_s(data: Path) -> list[float]:
    """How long each broker took from the stop order until its last connection closed, according to the log."""
    took, began = [], None
    for line in (data / "logs" / "headrace.log").read_text().splitlines():
        if " broker[" in line and "reason='stopping'" in line and began is not None:
            took.append((moment_of(line) - began).total_seconds())
        elif " broker[" in line and "broker stopping" in line:
            began = moment_of(line)
    return took


def moment_of(line: str) -> datetime:
    """The time of a log line."""
    return datetime.fromisoformat(line.partition(" ")[0])
