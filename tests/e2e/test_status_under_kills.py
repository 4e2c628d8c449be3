"""`headrace status` under load and kills: each sample is compared with what the test itself did and saw.

While roles are killed, the test queries the supervisor directly, often enough to catch it at any moment; afterwards it
runs the command.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import psutil
import pytest

from store.housekeeping.decide import files_ahead
from support.plain_sender import PlainSender
from support.servers import wait_until
from support.watched import WatchedAppliance as Appliance

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "maxMessageSize": "65536",
    "mappedFileSizeCommitLog": "262144",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
}
FILE_SIZE = int(SETTINGS["mappedFileSizeCommitLog"])
ROLES = ("logger", "nameserver", "housekeeper", "flush", "dispatch", "ha", "broker")
NOTICED_S = (
    30.0  # limit: the kernel notifies the supervisor of a death at once; a busy machine may delay its turn this long
)
HEARTBEAT_MS = 15_000  # limit: heartbeats come four times a second on an idle machine
GROWING = (
    "min_offset", "allocated_offset", "append_limit", "wrote_offset", "flushed_offset", "reput_offset", "wrote_timestamp",
    "flushed_timestamp", "reput_timestamp",
)  # fmt: skip
GAUGES = {"held_pulls", "connections"}
RATE_WINDOW_S = (5.0, 7.0)
"""Rates are of the last five seconds, and at most of two more: samples are a second apart, or as much later as the machine is late."""
PATIENCE_S = 60
PAUSE_S = 0.02
"""Between two questions while roles are killed."""
CALM_PAUSE_S = 0.2
"""Between two commands afterwards."""
SEND_PAUSE_S = 0.003


@dataclass
class Sample:
    """One answer, and when it was requested and received."""

    asked: float
    had: float
    status: dict[str, Any]
    alive: set[int]
    """Those of its pids that lived, as children of the supervisor, when it was had."""


@dataclass
class Witness:
    """Queries the status continuously in a thread and records the answers."""

    appliance: Appliance
    is_calm: bool = False
    """Whether it asks by the command."""
    samples: list[Sample] = field(default_factory=list)
    error: BaseException | None = None
    _ends: threading.Event = field(default_factory=threading.Event)

    def _run(self) -> None:
        try:
            while not self._ends.wait(CALM_PAUSE_S if self.is_calm else PAUSE_S):
                asked = time.monotonic()
                status = commanded(self.appliance) if self.is_calm else self.appliance.status()
                pids = {role["pid"] for role in status["roles"].values() if role["pid"]}
                alive = {pid for pid in pids if is_child_of(pid, self.appliance.process.pid)}
                self.samples.append(Sample(asked, time.monotonic(), status, alive))
        except BaseException as error:  # noqa: BLE001  raised in the test's own thread
            self.error = error

    def wait_for_more(self, count: int) -> None:
        """Waits for this many more answers."""
        goal = len(self.samples) + count
        wait_until(lambda: self.error or len(self.samples) >= goal, 60, f"{count} more answers")
        self.raise_error()

    def raise_error(self) -> None:
        """Raises the error that ended the thread, if any."""
        if self.error:
            raise self.error

    def __enter__(self) -> "Witness":
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


class Sending:
    """Sends one message after the other in a thread and records when each was acknowledged."""

    def __init__(self, port: int) -> None:
        self.sender = PlainSender(port)
        self.times: list[float] = []
        self.error: BaseException | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with self.sender:
                while not self._ends.is_set():
                    self.sender.send(len(self.times), 1000)
                    self.times.append(time.monotonic())
                    self._ends.wait(SEND_PAUSE_S)
        except BaseException as error:  # noqa: BLE001  raised in the test's own thread
            self.error = error

    def wait_for_more(self, count: int) -> None:
        """Waits until this many more are acknowledged."""
        goal = len(self.times) + count
        wait_until(lambda: self.error or len(self.times) >= goal, 60, f"{count} more messages")
        if self.error:
            raise self.error

    def between(self, begin: float, end: float) -> int:
        """How many were acknowledged in that time."""
        return sum(begin < at <= end for at in self.times)

    def __enter__(self) -> "Sending":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def commanded(appliance: Appliance) -> dict[str, Any]:
    """What `headrace status` prints."""
    said: dict[str, Any] = json.loads(appliance.run("status", "--data", str(appliance.data), "--json").stdout)
    return said


def is_child_of(pid: int, parent: int) -> bool:
    """Whether a process is alive and a child of the given one."""
    try:
        process = psutil.Process(pid)
        return process.ppid() == parent and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass
class Kill:
    """A kill of a role, which was alive at `began` and dead at `done`."""

    began: float
    done: float
    role: str
    pid: int


@dataclass
class Day:
    """What was done to an appliance, and the status it reported meanwhile."""

    samples: list[Sample]
    kills: list[Kill]
    sending: Sending
    calm_from: float
    """From then on nobody was killed."""
    counted: int
    """So many messages the broker had counted, at least: those of which this was awaited."""
    log_end: int
    last: dict[str, Any]

    def kills_before(self, role: str, moment: float) -> int:
        return sum(kill.began <= moment for kill in self.kills if kill.role == role)


class Counting:
    """What the broker must have counted.

    It counts ten times a second, so messages it accepts just before a kill are in the log only.
    """

    def __init__(self, appliance: Appliance, sending: Sending) -> None:
        self.counted = 0
        self._appliance = appliance
        self._sending = sending
        self._acknowledged_at_start = 0

    def await_counted(self) -> None:
        """Waits until everything that this broker has acknowledged so far is counted."""
        acknowledged = len(self._sending.times)
        self.counted += acknowledged - self._acknowledged_at_start
        self._acknowledged_at_start = acknowledged
        wait_until(lambda: self._said() >= self.counted, PATIENCE_S, f"{self.counted} messages counted")

    def another_broker(self) -> None:
        """Called when the broker was replaced; what the former acknowledged since `await_counted` may be uncounted.

        One message may have been in flight, acknowledged by the former broker but not yet recorded.
        """
        self._sending.wait_for_more(1)
        self._acknowledged_at_start = len(self._sending.times)

    def _said(self) -> int:
        return int(self._appliance.status()["counters"]["broker"]["messages_in"])


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    kills: list[Kill] = []
    with (
        Appliance(tmp_path_factory.mktemp("truth") / "data", settings=SETTINGS) as appliance,
        Witness(appliance) as witness,
    ):
        with Sending(appliance.ports[1]) as sending:
            counting = Counting(appliance, sending)
            sending.wait_for_more(50)
            for role in (*ROLES, "dispatch", "broker"):
                if role == "broker":
                    counting.await_counted()
                kills.append(kill(appliance, role))
                witness.wait_for_more(1)
                appliance.wait_restarted(role, kills[-1].pid, PATIENCE_S)
                if role == "broker":
                    counting.another_broker()
                sending.wait_for_more(20)
            witness.is_calm = True
            calm_from = time.monotonic()
            wait_until(
                lambda: time.monotonic() > calm_from + RATE_WINDOW_S[1] + 1, 60, "a window of rates without a kill"
            )
            witness.wait_for_more(3)
            calm_until = len(witness.samples)
        counting.await_counted()
        wait_until(lambda: appliance.status()["lag"] == {"flush": 0, "dispatch": 0}, PATIENCE_S, "flush and dispatch")
        wait_until(lambda: _all_is_reserved(appliance), PATIENCE_S, "all files reserved and announced")
        wait_until(
            lambda: appliance.status()["counters"]["broker"]["connections"] == 0,
            PATIENCE_S,
            "the sender's leave noticed",
        )
        witness.wait_for_more(2)
        last = witness.samples[-1].status
        witness.raise_error()
        log = appliance.run("store", "dump", str(appliance.store)).stdout
        assert log
        yield Day(witness.samples[:calm_until], kills, sending, calm_from, counting.counted, _reserved(appliance), last)


def kill(appliance: Appliance, role: str) -> Kill:
    """Kills a role and returns when it is dead."""
    pid = appliance.pid_of(role)
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_child_of(pid, appliance.process.pid), PATIENCE_S, f"the end of {role}")
    return Kill(began, time.monotonic(), role, pid)


def _all_is_reserved(appliance: Appliance) -> bool:
    """Whether the housekeeper has nothing left to reserve. A file exists before it is announced."""
    offsets = appliance.status()["offsets"]
    written = offsets["wrote_offset"] // FILE_SIZE * FILE_SIZE
    return offsets["allocated_offset"] == _reserved(appliance) >= written + (1 + files_ahead(FILE_SIZE)) * FILE_SIZE


def _reserved(appliance: Appliance) -> int:
    """Total size of all CommitLog files."""
    return sum(path.stat().st_size for path in (appliance.store / "commitlog").iterdir())


def test_enough_status_samples_were_taken(day: Day) -> None:
    assert len(day.samples) > len(day.kills) * 2
    assert any(role["pid"] is None or role["state"] != "running" for one in day.samples for role in _served(one))


def _served(sample: Sample) -> list[dict[str, Any]]:
    return [role for name, role in sample.status["roles"].items() if name in ROLES]


def test_roles_shown_as_running_are_alive_or_were_just_killed(day: Day) -> None:
    for sample in day.samples:
        for name in ROLES:
            said = sample.status["roles"][name]
            if said["pid"] is None or said["pid"] in sample.alive:
                continue
            died = [kill.done for kill in day.kills if (kill.role, kill.pid) == (name, said["pid"])]
            assert died, f"{name} has pid {said['pid']}, which is none of the appliance's"
            assert sample.asked - died[0] < NOTICED_S, f"{name} had been dead for {sample.asked - died[0]:.1f} s"


def test_roles_without_a_process_are_not_shown_as_running(day: Day) -> None:
    for sample in day.samples:
        for said in sample.status["roles"].values():
            assert (said["pid"] is None) == (said["state"] in {"waiting", "stopped", "ended"}), said
            assert (said["heartbeat_age_ms"] is None) == (said["pid"] is None)
        assert sample.status["roles"]["recover"]["state"] == "ended"


def test_restart_count_equals_kills(day: Day) -> None:
    for sample in day.samples:
        for name in ROLES:
            assert sample.status["roles"][name]["restarts"] <= day.kills_before(name, sample.had)
    for before, after in pairwise(day.samples):
        for name in ROLES:
            assert before.status["roles"][name]["restarts"] <= after.status["roles"][name]["restarts"]
    restarts = {name: day.last["roles"][name]["restarts"] for name in ROLES}
    assert restarts == {name: 2 if name in ("dispatch", "broker") else 1 for name in ROLES}


def test_running_roles_have_recent_heartbeats(day: Day) -> None:
    for sample in day.samples:
        for name in ROLES:
            said = sample.status["roles"][name]
            if said["state"] == "running":
                assert said["heartbeat_age_ms"] < HEARTBEAT_MS, f"{name} {said}"


def test_offsets_never_decrease(day: Day) -> None:
    for before, after in pairwise(day.samples):
        for cell in GROWING:
            assert before.status["offsets"][cell] <= after.status["offsets"][cell], cell


def test_lag_is_the_difference_and_never_negative(day: Day) -> None:
    for sample in day.samples:
        offsets, lag = sample.status["offsets"], sample.status["lag"]
        assert offsets["min_offset"] <= offsets["flushed_offset"] <= offsets["wrote_offset"]
        assert offsets["min_offset"] <= offsets["reput_offset"] <= offsets["wrote_offset"]
        assert offsets["wrote_offset"] <= offsets["append_limit"] <= offsets["allocated_offset"]
        assert lag == {
            "flush": offsets["wrote_offset"] - offsets["flushed_offset"],
            "dispatch": offsets["wrote_offset"] - offsets["reput_offset"],
        }


def test_counters_never_decrease(day: Day) -> None:
    for before, after in pairwise(day.samples):
        for role, counters in before.status["counters"].items():
            for name, value in counters.items():
                assert value <= after.status["counters"][role][name] or name in GAUGES, f"{role}.{name}"


def test_log_contains_everything_acknowledged_so_far(day: Day) -> None:
    smallest = 1000
    for sample in day.samples:
        acknowledged = day.sending.between(0, sample.asked)
        assert sample.status["offsets"]["flushed_offset"] >= acknowledged * smallest
    assert day.last["offsets"]["allocated_offset"] == day.log_end
    assert day.counted <= day.last["counters"]["broker"]["messages_in"] <= day.sending.sender.attempts
    assert day.last["counters"]["broker"]["connections"] == 0


def test_rates_match_the_client_load(day: Day) -> None:
    samples = [sample for sample in day.samples if sample.asked > day.calm_from]
    # Counting, sampling and timestamps may each be late by as long as an answer took.
    late = max(sample.had - sample.asked for sample in samples)
    calm = [sample for sample in samples if sample.asked > day.calm_from + RATE_WINDOW_S[1] + late]
    assert calm or late > 1
    for sample in calm:
        # The window may have begun and ended a little earlier or later than we can know.
        shortest = day.sending.between(sample.had - RATE_WINDOW_S[0], sample.asked - late) / (RATE_WINDOW_S[1] + late)
        longest = day.sending.between(sample.asked - RATE_WINDOW_S[1] - late, sample.had + late) / RATE_WINDOW_S[0]
        messages = sample.status["rates"]["broker.messages_in"]
        assert shortest * 0.9 - 1 <= messages <= longest * 1.1 + 1
        # Bodies of 1,000 bytes with about 150 bytes of overhead each, and fillers at file ends.
        assert messages * 1000 <= sample.status["rates"]["wrote_bytes"] <= (messages + 2) * 1400
