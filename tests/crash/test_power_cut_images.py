"""A power cut on a busy store loses no acknowledged message and invents none, and all indexes match the log.

All processes are stopped at one moment and their files copied, as the page cache has them. Then unsynced pages of the copy
are, at random, kept, zeroed, garbled, or torn in the middle:

    the log                    from `flushed_offset` on
    ConsumeQueues              entries of records younger than the checkpoint
    IndexFiles                 all pages of files that the checkpoint does not cover
"""

import os
import random
import shutil
import signal
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from store.checkpoint import read_checkpoint
from store.index.layout import END_TIMESTAMP
from store.inspect.dump import dump_records
from support.client import Client
from support.crash import SETTINGS, Load, check_indexes, check_log, check_pulled, rounds, verify
from support.java import Java
from support.journal import Journal
from support.servers import wait_until
from support.watched import WatchedAppliance as Appliance

CUTS = rounds(short=4, full=60)
PAGE = 4096
SECTOR = 512
ENTRY = struct.Struct(">qiq")
LONG = struct.Struct(">q")
UNSYNCED = 60_000
"""Bytes of the log, at least, that flush has not come to when the power goes."""

pytestmark = pytest.mark.timeout(300 + 20 * CUTS)


@dataclass(frozen=True)
class Image:
    """The files as they were in the page cache, and the state at that moment."""

    store: Path
    flushed_offset: int
    journal: Journal
    records: list[dict[str, Any]]

    def copy(self, data: Path) -> Path:
        shutil.copytree(self.store, data / "store")
        return data / "store"


@pytest.fixture(scope="module")
def image(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Image:
    home = tmp_path_factory.mktemp("power")
    settings = {
        **SETTINGS, "flushIntervalConsumeQueue": "200", "flushConsumeQueueThoroughInterval": "1000",
        "heartbeatTimeout": "600000",  # flush is suspended on purpose for as long as the test takes
    }  # fmt: skip
    with Appliance(home / "data", settings=settings) as appliance:
        client = Client(java, appliance)
        client.create_topic("Hurried", 2)
        with Load(java, appliance, home, threads=16) as load:
            load.wait_for_more(1500)
            os.kill(appliance.pid_of("flush"), signal.SIGSTOP)
            # Senders that do not wait for the disk go on; all others are blocked.
            client.send("Hurried", 150, mode="sync", waitStoreOk=False, size=300)
            wait_until(lambda: appliance.status()["lag"]["flush"] > UNSYNCED, 60, "something that is not synced")
            wait_until(lambda: appliance.status()["lag"]["dispatch"] == 0, 60, "all dispatched")
            flushed = appliance.status()["offsets"]["flushed_offset"]
            pids = appliance.pids()
            try:
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                shutil.copytree(appliance.store, home / "image")
                journal = load.journal()
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
            load.wait_for_more(100)  # acknowledged without waiting for the disk
        check_log(appliance.store, load.journal())
    records = [line for line in dump_records(home / "image") if line["kind"] == "record"]
    return Image(home / "image", flushed, journal, records)


def test_only_synced_messages_are_acknowledged(image: Image) -> None:
    sizes = {record["offset"]: record["size"] for record in image.records}
    assert len(image.journal.acknowledged) >= 1500
    for one in image.journal.acknowledged.values():
        assert one.physical_offset + sizes[one.physical_offset] <= image.flushed_offset
    last = image.records[-1]
    assert last["offset"] + last["size"] - image.flushed_offset > UNSYNCED


class PowerCut:
    """Drops unsynced data from a copy of the files."""

    def __init__(self, image: Image, store: Path, chance: random.Random) -> None:
        self._image = image
        self._store = store
        self._chance = chance
        self._checkpoint = read_checkpoint(store / "checkpoint")

    def strike(self) -> None:
        for path in sorted((self._store / "commitlog").iterdir()):
            self._spoil(path, max(0, self._image.flushed_offset - int(path.name)))
        stored = {record["offset"]: record["storeTimestamp"] for record in self._image.records}
        for path in sorted((self._store / "consumequeue").glob("*/*/*")):
            self._forget(path, self._durable_bytes(path.read_bytes(), stored))
        for path in sorted((self._store / "index").iterdir()):
            end = LONG.unpack_from(path.read_bytes(), END_TIMESTAMP)[0]
            if end > self._checkpoint.index_timestamp:
                self._spoil(path, 0)

    def _durable_bytes(self, data: bytes, stored: dict[int, int]) -> int:
        """How much of a queue file is on disk according to the checkpoint."""
        for at, (offset, size, _) in zip(range(0, len(data), ENTRY.size), ENTRY.iter_unpack(data), strict=False):
            if size == 0 or stored[offset] > self._checkpoint.logics_timestamp:
                return at
        return len(data)

    def _spoil(self, path: Path, start: int) -> None:
        """Leaves each page from the offset on old, new, or garbled."""
        data = bytearray(path.read_bytes())
        for first, end in pages(start, len(data)):
            match self._chance.choice(("keep", "keep", "zero", "garble", "tear")):
                case "zero":
                    data[first:end] = bytes(end - first)
                case "garble":
                    data[first:end] = self._chance.randbytes(end - first)
                case "tear":
                    cut = min(end, first - first % SECTOR + SECTOR * self._chance.randint(1, PAGE // SECTOR))
                    data[cut:end] = self._chance.choice((bytes(end - cut), self._chance.randbytes(end - cut)))
        path.write_bytes(data)

    def _forget(self, path: Path, start: int) -> None:
        """Leaves each page from the offset on as it is, or empty."""
        data = bytearray(path.read_bytes())
        for first, end in pages(start, len(data)):
            if self._chance.random() < 0.5:
                data[first:end] = bytes(end - first)
        path.write_bytes(data)


def pages(start: int, end: int) -> list[tuple[int, int]]:
    """The parts of a file's pages, from an offset on."""
    return [(max(start, first), min(end, first + PAGE)) for first in range(start - start % PAGE, end, PAGE)]


@pytest.mark.parametrize("cut", range(CUTS))
def test_store_is_consistent_after_a_power_cut(
    cut: int, image: Image, java: Java, tmp_path: Path, chance: random.Random
) -> None:
    data = tmp_path / "data"
    store = image.copy(data)
    PowerCut(image, store, chance).strike()
    with Appliance(data, settings=SETTINGS) as appliance:
        end = appliance.status()["offsets"]["wrote_offset"]
        assert end >= image.flushed_offset
        kept = [line for line in dump_records(store) if line["kind"] == "record"]
        # No hole and nothing foreign: a prefix of the original.
        assert [body_of(record) for record in kept] == [body_of(record) for record in image.records[: len(kept)]]
        durable = [record for record in image.records if record["offset"] < image.flushed_offset]
        assert kept[: len(durable)] == durable
        damaged = range(image.flushed_offset, end)
        copies = check_log(store, image.journal, damaged=damaged)
        assert copies.keys() >= image.journal.acknowledged.keys()
        if cut == 0:
            client = Client(java, appliance)
            with Load(java, appliance, tmp_path, prefix="after") as load:
                load.wait_for_more(100)
            journal = load.journal()
            copies = check_log(store, image.journal.followed_by(journal), damaged=damaged)
            check_pulled(client, copies, damaged=damaged)
        verify(store)
    verify(store)
    check_indexes(store, tmp_path / "scratch")


def body_of(record: dict[str, Any]) -> tuple[int, int, str]:
    """A record's position and body; the reader has checked its CRC."""
    return record["offset"], record["size"], record["body"] if "body" in record else record["bodySha256"]
