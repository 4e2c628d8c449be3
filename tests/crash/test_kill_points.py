"""Every kill point in the code is hit under load, and the store is intact afterwards.

A kill point is a name in the code (`fault_point("commit_log.copied")`). The appliance is started with some kill points
armed. Each process dies once at each of them and leaves a file with the point's name; the supervisor restarts it while
the client keeps sending. The scenarios differ in what it takes to reach a point. Together they cover every kill point.
"""

import itertools
import os
import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.model.message import Message
from headrace.sync import Admin, Producer
from store.fault_point import ENVIRONMENT, ONCE
from support.client import Client
from support.crash import PATIENCE_S, SETTINGS, Load, check_indexes, check_log, check_pulled, rounds, segments, verify
from support.java import Java
from support.journal import Journal
from support.servers import wait_until
from support.watched import WatchedAppliance as Appliance

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("appliance", "broker", "ipc", "nameserver", "store")
EACH_ALONE = rounds(short=0, full=10) > 1
"""In full length each point has an appliance of its own; in the short form those of a scenario share one."""

# Grouped by what it takes to reach them. The number is how often, at least, the point is passed under load, so that the
# pass at which to die can be random.
UNDER_LOAD = {
    "commit_log.copied": 200, "commit_log.published": 200, "commit_log.limit_raised": 2,
    "flush.synced": 100,
    "reput.walked": 100, "reput.rows_updated": 100, "reput.rows_published": 100, "reput.published": 100,
    "consume_queue.file_made": 2,
    "index.entry_written": 200, "index.header_written": 200, "index.end_offset_written": 200, "index.end_written": 200,
    "index.count_written": 200, "index.file_made": 1, "index.file_begun": 1,
    "housekeeping.reserved": 2, "housekeeping.queue_synced": 1, "checkpoint.written": 1,
}  # fmt: skip
AFTER_A_KILLED_BROKER = ("tail.wiped",)
AT_THE_START = (
    "recovery.surveyed", "recovery.wiped", "recovery.leftover_removed", "recovery.cut", "recovery.index_dropped",
)  # fmt: skip
WHEN_FILES_EXPIRE = (
    "housekeeping.min_raised", "housekeeping.deleted", "consume_queue.file_deleted", "index.file_deleted",
)  # fmt: skip
WHEN_A_QUEUE_IS_LOST = ("consume_queue.filled",)
WHEN_A_TOPIC_IS_DELETED = (
    "topic_deletion.marked", "topic_deletion.removed", "topic_deletion.settled",
    "consume_queue.row_freed", "cleaning.queues_dropped", "consume_queue.files_deleted",
)  # fmt: skip
ON_A_SLAVE = ("ha.copied",)

BUSY = {
    # The housekeeper must run within a second.
    **SETTINGS, "flushIntervalConsumeQueue": "100", "flushConsumeQueueThoroughInterval": "300",
}  # fmt: skip
DOOMED = "Doomed"
QUEUES = 4
DELETE_EXPIRED_COMMITLOG = 329

pytestmark = pytest.mark.timeout(400)


@dataclass
class Armed:
    """Armed kill points, and the files that record which were hit."""

    points: tuple[str, ...]
    marks: Path

    def environment(self, passes: Callable[[str], int] = lambda _: 1) -> dict[str, str]:
        """Environment variables for the appliance. `passes` gives the pass of each point at which to die."""
        self.marks.mkdir(exist_ok=True)
        setting = ",".join(f"{point}:{passes(point)}" for point in self.points)
        return {**os.environ, ENVIRONMENT: setting, ONCE: str(self.marks)}

    def hit(self) -> set[str]:
        """The points at which a process has died."""
        return {path.name for path in self.marks.iterdir()}

    def wait_hit(self) -> None:
        """Waits until all of them have been hit."""
        wait_until(lambda: self.hit() == set(self.points), PATIENCE_S, f"{self.points} hit")


def choices(*scenarios: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All points of a scenario together; in full length also each point alone."""
    together = [points for points in scenarios if len(points) > 1 or not EACH_ALONE]
    return together + ([(point,) for points in scenarios for point in points] if EACH_ALONE else [])


def name_of(points: tuple[str, ...]) -> str:
    """The test id."""
    return points[0] if len(points) == 1 else f"{points[0].split('.')[0]}-and-{len(points) - 1}-more"


def armed(points: tuple[str, ...], tmp_path: Path) -> Armed:
    return Armed(points, tmp_path / "hit")


def finish(appliance: Appliance, load: Load, *, min_offset: int = 0) -> Journal:
    """Checks the running appliance, stops it, and checks the store that it leaves."""
    journal = load.journal()
    assert journal.acknowledged.keys() == journal.tried.keys()
    wait_until(lambda: not any(appliance.status()["lag"].values()), 60, "flush and dispatch")
    copies = check_log(appliance.store, journal, min_offset=min_offset)
    check_pulled(Client(load.java, appliance), copies)
    appliance.stop()
    verify(appliance.store)
    if min_offset == 0:
        check_indexes(appliance.store, appliance.data.with_name("scratch"))
    assert check_log(appliance.store, journal, min_offset=min_offset) == copies
    assert not segments(appliance.store)
    assert not (appliance.store / "abort").exists()
    return journal


def test_every_kill_point_has_a_scenario() -> None:
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if path.name != "fault_point.py":
                found |= set(re.findall(r'fault_point\(\s*"([^"]+)"', path.read_text()))
    scenarios = (
        *UNDER_LOAD, *AFTER_A_KILLED_BROKER, *AT_THE_START, *WHEN_FILES_EXPIRE, *WHEN_A_QUEUE_IS_LOST, *WHEN_A_TOPIC_IS_DELETED,
        *ON_A_SLAVE,
    )  # fmt: skip
    assert len(scenarios) == len(set(scenarios))
    assert found == set(scenarios)


OF_THE_WRITER = tuple(point for point in UNDER_LOAD if point.startswith("commit_log"))
OF_DISPATCH = tuple(point for point in UNDER_LOAD if point.startswith(("reput", "consume_queue", "index")))
OF_OTHERS = tuple(point for point in UNDER_LOAD if point not in OF_THE_WRITER + OF_DISPATCH)


@pytest.mark.parametrize("points", choices(OF_THE_WRITER, OF_DISPATCH, OF_OTHERS), ids=name_of)
def test_store_is_intact_when_a_role_dies_under_load(
    points: tuple[str, ...], java: Java, tmp_path: Path, chance: random.Random
) -> None:
    kill = armed(points, tmp_path)
    environment = kill.environment(lambda point: chance.randint(1, UNDER_LOAD[point]))
    with Appliance(tmp_path / "data", settings=BUSY, environment=environment) as appliance:
        with Load(java, appliance, tmp_path) as load:
            kill.wait_hit()
            load.wait_for_more(100)
        # The last process to die may not have been restarted yet.
        wait_until(lambda: restarts(appliance) == len(points), 60, f"{len(points)} restarts")
        finish(appliance, load)


def restarts(appliance: Appliance) -> int:
    """Restarts of all roles."""
    return sum(said["restarts"] for said in appliance.status()["roles"].values())


def test_store_is_intact_when_the_log_writer_dies_while_wiping_the_tail(java: Java, tmp_path: Path) -> None:
    kill = armed(AFTER_A_KILLED_BROKER, tmp_path)
    kill.environment()
    (kill.marks / "tail.wiped").touch()  # not yet: recovery passes it too
    with Appliance(tmp_path / "data", settings=BUSY, environment=kill.environment()) as appliance:
        with Load(java, appliance, tmp_path) as load:
            load.wait_for_more(200)
            (kill.marks / "tail.wiped").unlink()
            os.kill(appliance.pid_of("broker"), signal.SIGKILL)
            kill.wait_hit()
            load.wait_for_more(100)
        assert appliance.status()["roles"]["broker"]["restarts"] == 2
        finish(appliance, load)


@contextmanager
def standing_still(java: Java) -> Iterator[None]:
    """Pauses the client: while nothing can be answered, eight threads would retry in vain and use a whole core."""
    os.kill(java.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(java.pid, signal.SIGCONT)


@pytest.mark.parametrize("points", choices((*AT_THE_START, *AFTER_A_KILLED_BROKER)), ids=name_of)
def test_recovery_restarts_after_it_is_killed(points: tuple[str, ...], java: Java, tmp_path: Path) -> None:
    kill = armed(points, tmp_path)
    data = tmp_path / "data"
    appliance = Appliance(data, settings=SETTINGS)
    try:
        with Load(java, appliance, tmp_path) as load:
            load.wait_for_more(600)
            leave_a_deleted_topics_queues(appliance, tmp_path)
            with standing_still(java):
                appliance = Appliance(data, settings=SETTINGS, ports=appliance.ports, environment=kill.environment())
                kill.wait_hit()
                assert appliance.status()["roles"]["recover"]["restarts"] == len(points)
            load.wait_for_more(100)
        finish(appliance, load)
    finally:
        appliance.kill()


def leave_a_deleted_topics_queues(appliance: Appliance, tmp_path: Path) -> None:
    """Kills the appliance and restores the queues of a deleted topic, as a power cut may."""
    queues = appliance.store / "consumequeue" / DOOMED
    with Admin(appliance.name_server) as admin:
        admin.create_topic(DOOMED, QUEUES)
        send(appliance, "a", "b", "c")
        wait_until(lambda: any(queues.glob(f"*/{'[0-9]' * 20}")), 60, "dispatch has made a file")
        shutil.copytree(queues, tmp_path / "queues")
        admin.delete_topic(DOOMED)
    appliance.kill()
    shutil.rmtree(queues, ignore_errors=True)
    shutil.copytree(tmp_path / "queues", queues)
    os.truncate(appliance.store / "abort", 0)  # names no boot, as if the machine had been switched off


@pytest.mark.parametrize("points", choices(WHEN_FILES_EXPIRE), ids=name_of)
def test_store_is_intact_when_a_role_dies_during_retention(points: tuple[str, ...], java: Java, tmp_path: Path) -> None:
    kill = armed(points, tmp_path)
    settings = {**BUSY, "fileReservedTime": "0", "deleteWhen": "", "deleteCommitLogFilesInterval": "10"}
    with Appliance(tmp_path / "data", settings=settings, environment=kill.environment()) as appliance:
        with Load(java, appliance, tmp_path) as load:
            load.wait_for_more(1500)

            def ask_again() -> bool:
                # The broker is not the role that dies; the role that dies carries out the request after its restart.
                java.call("raw", address=appliance.broker, code=DELETE_EXPIRED_COMMITLOG)
                return kill.hit() == set(points)

            wait_until(ask_again, PATIENCE_S, f"{points} hit")
            load.wait_for_more(100)
        wait_until(lambda: settled(appliance), 60, "deleted what was to be deleted")
        min_offset = appliance.status()["offsets"]["min_offset"]
        assert min_offset >= int(SETTINGS["mappedFileSizeCommitLog"])
        finish(appliance, load, min_offset=min_offset)


def test_store_is_intact_when_dispatch_dies_while_padding_a_queue(java: Java, tmp_path: Path) -> None:
    kill = armed(WHEN_A_QUEUE_IS_LOST, tmp_path)
    data, size = tmp_path / "data", int(SETTINGS["mappedFileSizeCommitLog"])
    with Appliance(data, settings=SETTINGS) as appliance, Load(java, appliance, tmp_path) as load:
        load.wait_for_more(2000)
        load.end()
    (appliance.store / "commitlog" / f"{0:020}").unlink()
    shutil.rmtree(appliance.store / "consumequeue")
    environment = kill.environment()
    with Appliance(data, settings=SETTINGS, ports=appliance.ports, environment=environment) as appliance:
        kill.wait_hit()
        wait_until(lambda: restarts(appliance) == 1, 60, "dispatch restarted")
        finish(appliance, load, min_offset=size)


@pytest.mark.parametrize("points", choices(WHEN_A_TOPIC_IS_DELETED), ids=name_of)
def test_store_is_intact_when_a_role_dies_while_a_topic_is_recreated(
    points: tuple[str, ...], java: Java, tmp_path: Path
) -> None:
    kill = armed(points, tmp_path)
    with Appliance(tmp_path / "data", settings=SETTINGS, environment=kill.environment()) as appliance:
        with Load(java, appliance, tmp_path) as load, Admin(appliance.name_server) as admin:
            numbers, sent = itertools.count(), [""]
            until_it_works(lambda: admin.create_topic(DOOMED, QUEUES))
            while kill.hit() != set(points):
                until_it_works(lambda: admin.delete_topic(DOOMED))
                until_it_works(lambda: admin.create_topic(DOOMED, QUEUES))
                sent = [str(next(numbers)) for _ in range(10)]
                send(appliance, *sent)
            load.wait_for_more(100)
        wait_until(lambda: settled(appliance), 60, "deleted what was to be deleted")
        assert restarts(appliance) == len(points)
        client = Client(java, appliance)
        client.await_pullable(DOOMED, len(sent))
        assert sorted(message["keys"] for message in client.dump(DOOMED)) == sorted(sent)
        finish(appliance, load)


def until_it_works(do: Callable[[], None]) -> None:
    """Repeats a request that may kill the broker until it succeeds."""

    def works() -> bool:
        try:
            do()
        except HeadraceError:
            return False
        return True

    wait_until(works, PATIENCE_S, "a request answered")


def send(appliance: Appliance, *keys: str) -> None:
    """Sends to the topic that is repeatedly deleted."""
    with Producer("killed-sender", appliance.name_server, send_timeout=60) as producer:
        for key in keys:
            producer.send(Message(DOOMED, key.encode(), keys=key))


def test_slave_catches_up_after_dying_before_it_published_records(java: Java, tmp_path: Path) -> None:
    kill = armed(ON_A_SLAVE, tmp_path)
    with Appliance(tmp_path / "data", settings=SETTINGS) as master:
        host, _, port = master.broker.partition(":")
        follows = {
            **SETTINGS, "brokerRole": "SLAVE", "brokerId": "1", "haMasterAddress": f"{host}:{int(port) + 1}",
            "namesrvAddr": master.name_server,
        }  # fmt: skip
        with Appliance(tmp_path / "slave", settings=follows, environment=kill.environment()) as slave:
            with Load(java, master, tmp_path) as load:
                kill.wait_hit()
                load.wait_for_more(100)
            wait_until(lambda: restarts(slave) == 1, 60, "its ha restarted")
            end = master.status()["offsets"]["wrote_offset"]
            wait_until(lambda: slave.status()["offsets"]["wrote_offset"] == end, 60, "the slave has all of it")
            wait_until(lambda: not any(slave.status()["lag"].values()), 60, "the slave's flush and dispatch")
        verify(slave.store)
        finish(master, load)
    logs = [
        b"".join(path.read_bytes() for path in sorted((one.store / "commitlog").iterdir()))[:end]
        for one in (master, slave)
    ]
    assert logs[0] == logs[1]


def settled(appliance: Appliance) -> bool:
    """Whether no requested deletion is in progress and no role lags behind."""
    said = appliance.status()
    offsets = said["offsets"]
    return (
        not any(said["lag"].values())
        and offsets["delete_expired_requests"] == offsets["delete_expired_handled"]
        and offsets["clean_topics_requests"] == offsets["clean_topics_handled"]
    )
