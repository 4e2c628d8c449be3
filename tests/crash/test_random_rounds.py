"""Random rounds of faults under load: no acknowledged message is lost or duplicated, except reported losses.

    role         a role is killed
    everything   all processes are killed at once
    deletion     a topic is deleted and created again, and a role or everything is killed meanwhile
    damage       bytes of the flushed log change while the appliance is down, after a stop or a kill
    disk         foreign data fills the disk beyond one of its limits, and a role is killed meanwhile

A life is one store and a series of rounds; at its end everything is checked. The full form does 300 rounds.
"""

import contextlib
import os
import random
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.model.message import Message
from headrace.model.message_id import decode_offset_message_id
from headrace.protocol.record import decode_records
from headrace.protocol.response_code import ResponseCode
from headrace.sync import Admin, Producer
from store.inspect.verify import Finding, verify
from support.crash import PATIENCE_S, QUEUES, SETTINGS, TOPIC, Load, rounds
from support.java import Java
from support.journal import Acknowledged, Journal
from support.plain_puller import PlainPuller
from support.servers import wait_until
from support.volume import IS_POSSIBLE, Volume
from support.watched import WatchedAppliance as Appliance

KINDS = ("role", "everything", "deletion", "damage", *(("disk",) if IS_POSSIBLE else ()))
ROUNDS_A_LIFE = 25
ROUNDS = rounds(short=len(KINDS), full=300)
ROLES = ("broker", "dispatch", "flush", "housekeeper", "ha", "nameserver", "logger")
DOOMED = "Doomed"
VOLUME_BYTES = 256 << 20
BLOCK_BYTES = 4096
SETTINGS = {
    **SETTINGS,
    # The checkpoint stays recent, so that a start after a kill reads little of the damaged part.
    "flushIntervalConsumeQueue": "100", "flushConsumeQueueThoroughInterval": "300",
}  # fmt: skip
FILE_BYTES = int(SETTINGS["mappedFileSizeCommitLog"])


class Life:
    """A store, and the messages in it that the test knows of."""

    def __init__(self, home: Path, java: Java, chance: random.Random, *, in_blocks: bool) -> None:
        """`in_blocks`: damage hits 4 KiB anywhere; otherwise a few bytes of one message's body."""
        self.home = home
        self.java = java
        self.chance = chance
        self.in_blocks = in_blocks
        self.volume = Volume(home, VOLUME_BYTES) if IS_POSSIBLE else None
        self.data = (self.volume.path if self.volume else home) / "data"
        self.journal = Journal()
        self.excused: set[str] = set()
        """Acknowledged messages that need not be there: damaged, or said to be discarded."""
        self.damaged: list[range] = []
        self.doomed: dict[str, int] = {}
        """The messages that the topic must have which is deleted again and again: physical offsets by key."""
        self._numbers = 0
        self._names: Iterator[int] = iter(range(1 << 30))

    def run(self, kinds: list[str]) -> None:
        """Runs the rounds and then checks everything."""
        with self.mounted():
            self.appliance = Appliance(self.data, settings=SETTINGS)
            try:
                self.again(lambda admin: admin.create_topic(DOOMED, QUEUES))
                for number, kind in enumerate(kinds):
                    sys.stdout.write(f"round={number} kind={kind}\n")
                    getattr(self, f"round_of_{kind}")()
                self.check()
                self.appliance.stop()
                self.check_files()
            finally:
                self.appliance.kill()

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        if self.volume is None:
            yield
        else:
            with self.volume:
                yield

    # ---- rounds

    def round_of_role(self) -> None:
        with self.load(self.chance.randrange(1, 200)):
            self.kill_role(self.chance.choice(ROLES))

    def round_of_everything(self) -> None:
        with self.load(self.chance.randrange(1, 200)):
            if not self.damaged:
                self.kill_everything()
        if self.damaged:
            self.kill_everything()

    def round_of_deletion(self) -> None:
        """The process that dies, if any, does so some milliseconds before or after the request is handled."""
        victim = self.chance.choice(["nobody", "broker", "dispatch", *(() if self.damaged else ("everything",))])
        delay_s = self.chance.random() * 0.03
        with self.load(10):
            self.check_doomed()
            killing = threading.Timer(delay_s, self.kill_now, [victim])
            killing.start()
            try:
                self.again(lambda admin: admin.delete_topic(DOOMED), while_it_dies=killing)
            finally:
                killing.join()
            if victim == "everything":
                self.start()
            self.again(lambda admin: admin.delete_topic(DOOMED))
            self.again(lambda admin: admin.create_topic(DOOMED, QUEUES))
            self.doomed = {}
            self.send_doomed(self.chance.randrange(1, 20))
        if self.chance.random() < 0.3:
            self.kill_everything()
            self.check_doomed()

    def round_of_damage(self) -> None:
        with self.load(self.chance.randrange(50, 300)):
            pass
        end = self.offsets()["flushed_offset"]
        if self.chance.random() < 0.5:
            self.appliance.stop()
        else:
            self.appliance.kill()
        self.damage(end)
        self.start()
        with self.load(10):
            pass

    def round_of_disk(self) -> None:
        assert self.volume is not None
        role = self.chance.choice(ROLES)
        kept_from, given_up = self.offsets()["min_offset"], self.given_up()
        with self.load(50):
            with contextlib.suppress(OSError):  # the appliance may take the last space first
                self.volume.fill_to(self.chance.choice([0.8, 0.88, 0.93, 0.99]))
            threading.Event().wait(
                self.chance.random()
            )  # no condition to wait for: what happens meanwhile depends on the disk
            self.kill_role(role)
            self.volume.free()
            wait_until(self.has_no_flag, PATIENCE_S, "the disk not full any more")
        deleted, said = self.offsets()["min_offset"] - kept_from, self.given_up() - given_up
        # The housekeeper counts a file after deleting it, and may be killed in between.
        assert deleted <= said + (FILE_BYTES if role == "housekeeper" else 0)

    def has_no_flag(self) -> bool:
        return not any(value for name, value in self.offsets().items() if name.startswith("flag_"))

    def given_up(self) -> int:
        """Bytes of the log deleted because the disk was full, as counted by the appliance."""
        return int(self.appliance.status()["counters"]["housekeeper"]["forced_deleted_bytes"])

    # ---- faults

    @contextlib.contextmanager
    def load(self, before: int) -> Iterator[None]:
        """Sends while something happens: at least `before` messages before it, and some after."""
        number = next(self._names)
        home = self.home / f"load-{number}"
        home.mkdir()
        load = Load(self.java, self.appliance, home, threads=3, pause_ms=2, prefix=f"{number}-", timeout_ms=2000)
        with load:
            load.wait_for_more(before)
            yield
            load.wait_for_more(20)
        journal = load.journal()
        assert journal.acknowledged.keys() | journal.unsafe == journal.tried.keys()
        self.journal = self.journal.followed_by(journal)
        shutil.rmtree(home)

    def kill_role(self, role: str) -> None:
        pid = self.appliance.pid_of(role)
        os.kill(pid, signal.SIGKILL)
        self.appliance.wait_restarted(role, pid)

    def kill_everything(self) -> None:
        self.appliance.kill()
        self.start()

    def kill_now(self, victim: str) -> None:
        if victim == "everything":
            self.appliance.kill()
        elif victim != "nobody":
            os.kill(self.appliance.pid_of(victim), signal.SIGKILL)

    def start(self) -> None:
        """Starts the appliance. After damage nothing is sent meanwhile: recovery could discard it unnoticed."""
        self.appliance = Appliance(self.data, settings=SETTINGS, ports=self.appliance.ports)
        if self.damaged:
            self.note_discarded()

    def again(self, do: Callable[[Admin], None], while_it_dies: threading.Timer | None = None) -> None:
        """Repeats a request until it is answered or no process is left to answer it."""

        def is_answered() -> bool:
            try:
                with Admin(self.appliance.name_server) as admin:
                    do(admin)
            except HeadraceError:
                return while_it_dies is not None and not while_it_dies.is_alive()
            return True

        wait_until(is_answered, PATIENCE_S, "a request answered")

    def damage(self, end: int) -> None:
        """Corrupts bytes of the log below `end`."""
        first = min(int(path.name) for path in (self.appliance.store / "commitlog").iterdir())
        kept = sorted((one for one in self.kept() if one.physical_offset >= first), key=lambda one: one.physical_offset)
        victim = self.chance.choice(kept)
        if self.in_blocks:
            begin = min(victim.physical_offset + self.chance.randrange(200), end - BLOCK_BYTES)
            junk = self.chance.randbytes(BLOCK_BYTES)
        else:
            begin = victim.physical_offset + 100  # within the body, which is 200 bytes long
            junk = b"\xff\x00\xfe"
        self.write(begin, junk)
        hit = range(begin, begin + len(junk))
        self.damaged.append(hit)
        for one in kept:
            if one.physical_offset < hit.stop and one.physical_offset + 1000 > hit.start:
                self.excused.add(one.key)

    def write(self, offset: int, data: bytes) -> None:
        for at in range(len(data)):
            start = (offset + at) - (offset + at) % FILE_BYTES
            with (self.appliance.store / "commitlog" / f"{start:020}").open("r+b") as file:
                file.seek(offset + at - start)
                file.write(data[at : at + 1])

    def note_discarded(self) -> None:
        """Records what recovery reported as discarded; nothing else may be missing."""
        end = self.offsets()["wrote_offset"]
        said = self.appliance.status()["counters"]["recover"]
        gone = {one.key: one.physical_offset for one in self.kept() if one.physical_offset >= end}
        if gone:
            assert said["discarded_records"] >= len(gone)
            assert said["discarded_first_offset"] <= min(gone.values())
            assert said["discarded_last_offset"] >= max(gone.values())
            assert f"discarded records={said['discarded_records']}" in (self.data / "logs" / "headrace.log").read_text()
            line = self.appliance.run("status", "--data", str(self.data)).stdout
            assert f"discarded at startup: {said['discarded_records']:,} records" in line
            there = self.read(DOOMED)  # there is no journal for the other topic
            self.doomed = {key: offset for key, offset in self.doomed.items() if key in there}
        self.excused |= gone.keys()
        self.damaged = [one for one in self.damaged if one.start < end]

    # ---- checks

    def offsets(self) -> dict[str, int]:
        found: dict[str, int] = self.appliance.status()["offsets"]
        return found

    def kept(self) -> list[Acknowledged]:
        """Acknowledged messages that are not excused by reported losses."""
        return [one for key, one in self.journal.acknowledged.items() if key not in self.excused]

    def send_doomed(self, count: int) -> None:
        with Producer("doomed-sender", self.appliance.name_server, send_timeout=60) as producer:
            for _ in range(count):
                self._numbers += 1
                result = producer.send(Message(DOOMED, b"body", keys=str(self._numbers)))
                self.doomed[str(self._numbers)] = decode_offset_message_id(result.offset_message_id)[1]

    def check_doomed(self) -> None:
        """Checks that the topic has the messages sent since it was recreated, and none from before its deletion.

        Files that were deleted because the disk was full may have held the oldest ones.
        """
        there = self.read(DOOMED).keys()
        min_offset = self.offsets()["min_offset"]
        assert there <= self.doomed.keys()
        assert not [key for key, offset in self.doomed.items() if offset >= min_offset and key not in there]

    def check(self) -> None:
        """Checks all of the load's messages by pulling them."""
        wait_until(lambda: not any(self.appliance.status()["lag"].values()), 60, "flush and dispatch")
        there = self.read(TOPIC)
        # order: after reading: a file whose deletion was announced is deleted even if the disk is no longer full
        min_offset = self.offsets()["min_offset"]
        missing = [
            one
            for one in self.kept()
            if one.physical_offset >= min_offset
            and (one.queue_id, one.queue_offset, one.physical_offset) not in there.get(one.key, ())
        ]
        assert not missing, f"{len(missing)} of {len(self.kept())} acknowledged messages are missing: {missing[:3]}"
        foreign = there.keys() - self.journal.tried.keys()
        assert not foreign, f"{len(foreign)} messages were never sent, such as {next(iter(foreign))}"
        too_often = [key for key, places in there.items() if len(places) > self.journal.sent[key]]
        assert not too_often
        self.check_doomed()

    def read(self, topic: str) -> dict[str, list[tuple[int, int, int]]]:
        """All messages of a topic by key: queue, queue offset, physical offset."""
        found: dict[str, list[tuple[int, int, int]]] = {}
        with PlainPuller(self.appliance.ports[1]) as puller:
            for queue_id in range(QUEUES):
                offset, end = 0, 1
                while offset < end:
                    answer = puller.pull(topic, queue_id=queue_id, offset=offset)
                    fields = answer.ext_fields or {}
                    following, end = (int(fields[name]) for name in ("nextBeginOffset", "maxOffset"))
                    assert following > offset or offset >= end, answer
                    for one in decode_records(answer.body) if answer.code == ResponseCode.SUCCESS else ():
                        place = (queue_id, one.queue_offset, one.physical_offset)
                        found.setdefault(one.properties["KEYS"], []).append(place)
                    offset = following
        return found

    def check_files(self) -> None:
        """Checks that `verify` finds the damage and nothing else. It cannot see behind a damaged block."""
        if self.in_blocks and self.damaged:
            return
        slots, entries = int(SETTINGS["maxHashSlotNum"]), int(SETTINGS["maxIndexNum"])
        found = [one for one in verify(self.appliance.store, slots, entries) if isinstance(one, Finding)]
        strange = [one for one in found if not self.is_damaged(one)]
        assert not strange, strange[:5]

    def is_damaged(self, finding: Finding) -> bool:
        return any(one.start - 1000 < finding.physical_offset < one.stop for one in self.damaged)


def draw(chance: random.Random, count: int) -> list[str]:
    """Kinds of rounds, equally often, in random order."""
    deck: list[str] = []
    while len(deck) < count:
        deck += chance.sample(KINDS, len(KINDS))
    return deck[:count]


@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_no_acknowledged_message_is_lost_in_random_rounds(java: Java, tmp_path: Path, chance: random.Random) -> None:
    kinds = draw(chance, ROUNDS)
    done: Counter[str] = Counter()
    for number, first in enumerate(range(0, ROUNDS, ROUNDS_A_LIFE)):
        home = tmp_path / str(number)
        home.mkdir()
        of_this = kinds[first : first + ROUNDS_A_LIFE]
        Life(home, java, chance, in_blocks=number % 2 == 1).run(of_this)
        done.update(of_this)
        shutil.rmtree(home)
    assert done.total() == ROUNDS
