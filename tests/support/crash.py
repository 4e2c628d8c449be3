"""Crash tests: a load that keeps a journal, and the checks that must hold whatever was killed.

    with Appliance(data, settings=SETTINGS) as appliance, Load(java, appliance, tmp_path) as load:
        load.wait_for_more(100)
        ... kill ...
        load.end()
    check_log(appliance.store, load.journal())
    verify(appliance.store)

`verify` is the program that operators have (`headrace store verify`); `check_log` compares the log with what clients were told.
"""

import itertools
import os
import random
import secrets
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from headrace.model.option import from_mapping, keys_of
from ipc.names import instance_hash
from store.config import StoreConfig
from store.deleted_topics import FILE as DELETED_TOPICS
from store.inspect.dump import dump_records
from store.paths import StorePaths
from support.appliance import HEADRACE, Appliance
from support.client import Client, Message
from support.dispatched_store import build, built_files
from support.java import Java
from support.journal import Journal
from support.servers import wait_until

SETTINGS = {
    # Small files, so that every kind of file rolls over within seconds.
    "flushDiskType": "SYNC_FLUSH",
    # Long enough for a disk that others keep busy: a stored but unsynced message would count for neither side.
    "syncFlushTimeout": "60000",
    "maxMessageSize": "65536",
    "mappedFileSizeCommitLog": "262144",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "500",
}
TOPIC = "Crash"
QUEUES = 4
SEGMENTS = Path("/dev/shm")
PATIENCE_S = 120
"""What a machine that does other things may take."""

Record = dict[str, Any]

_NUMBERS = itertools.count()


_NEVER_MS = "100000000"
ONLY_THE_STOP_SYNCS = SETTINGS | {
    "flushDiskType": "ASYNC_FLUSH",
    "flushIntervalCommitLog": _NEVER_MS,
    "flushCommitLogThoroughInterval": _NEVER_MS,
    "flushIntervalConsumeQueue": _NEVER_MS,
    "flushConsumeQueueThoroughInterval": _NEVER_MS,
    "flushConsumerOffsetInterval": _NEVER_MS,
    "flushDelayOffsetInterval": _NEVER_MS,
}
"""The same, without periodic syncs."""


def rounds(short: int, full: int) -> int:
    """How many rounds to run: HEADRACE_CRASH_ROUNDS is `full`, a number, or unset."""
    asked = os.environ.get("HEADRACE_CRASH_ROUNDS", "")
    return full if asked == "full" else int(asked or short)


def chance() -> random.Random:
    """A random number generator with a printed seed, or with the seed HEADRACE_CRASH_SEED."""
    seed = int(os.environ.get("HEADRACE_CRASH_SEED") or secrets.randbelow(1 << 32))
    sys.stdout.write(f"HEADRACE_CRASH_SEED={seed}\n")
    return random.Random(seed)


class Load:
    """The official client sends from several threads, keeps a journal, and retries until acknowledged."""

    def __init__(
        self,
        java: Java,
        appliance: Appliance,
        home: Path,
        *,
        threads: int = 8,
        size: int = 200,
        pause_ms: int = 1,
        prefix: str = "c",
        timeout_ms: int = 6000,
    ) -> None:
        """Creates the topic.

        `home`: the folder of the journal. `size` of a body in bytes, `pause_ms` between two messages of a thread.
        `prefix`: of the keys, where several loads send to one store. `timeout_ms`: how long a client waits for a
        response; it does not notice that the broker that owes it is dead.
        """
        self.path = home / "journal"
        self.java = java
        self._name = f"load-{next(_NUMBERS)}"
        Client(java, appliance).create_topic(TOPIC, QUEUES)
        self._arguments: dict[str, Any] = {
            "namesrv": appliance.name_server, "topic": TOPIC, "producer": self._name, "journal": str(self.path),
            "threads": threads, "size": size, "pauseMs": pause_ms, "prefix": prefix, "again": True,
            "timeoutMs": timeout_ms,
        }  # fmt: skip
        self._goes = False

    def acknowledged(self) -> int:
        """How many messages have been acknowledged so far."""
        return int(self._say()["acknowledged"])

    def failed(self) -> int:
        """How many sends have failed so far, including the client's own retries."""
        return int(self._say()["failed"])

    def _say(self) -> dict[str, Any]:
        said: dict[str, Any] = self.java.call("producing", producer=self._name)
        strange = [problem for problem in said["problems"] if problem.startswith(("ended", "journal"))]
        assert not strange, strange
        return said

    def wait_for_more(self, count: int) -> None:
        """Waits until this many more are acknowledged."""
        goal = self.acknowledged() + count
        wait_until(lambda: self.acknowledged() >= goal, PATIENCE_S, f"{count} more messages, {self._say()}")

    def end(self) -> None:
        """Stops sending and waits for pending responses."""
        if self._goes:
            self._goes = False
            self.java.call("stop-producing", producer=self._name)

    def journal(self) -> Journal:
        """The client's journal so far."""
        return Journal.read(self.path)

    def __enter__(self) -> Self:
        self.java.call("produce-continuously", **self._arguments)
        self._goes = True
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def records(store: Path, topic: str = TOPIC) -> Iterator[Record]:
    """The records of a topic, in log order."""
    return (line for line in dump_records(store) if line["kind"] == "record" and line["topic"] == topic)


def check_log(store: Path, journal: Journal, *, min_offset: int = 0, damaged: range = range(0)) -> Counter[str]:
    """Checks that the log has every acknowledged message where the client was told, none too often, and no others.

    Messages below `min_offset` were deleted on purpose. Between the `damaged` offsets properties may be torn, which no
    checksum covers (docs/storage/crash-safety.md), so only bodies are checked there. Returns how often each key occurs,
    without the damaged ones.
    """
    by_offset = {record["offset"]: record for record in records(store)}
    kept = [one for one in journal.acknowledged.values() if one.physical_offset >= min_offset]
    missing = [one for one in kept if one.physical_offset not in by_offset]
    assert not missing, f"{len(missing)} of {len(kept)} acknowledged messages are gone, such as {missing[:3]}"
    for one in kept:
        record = by_offset[one.physical_offset]
        properties = record["properties"]
        assert (properties["KEYS"], properties["UNIQ_KEY"]) == (one.key, one.message_id)
        assert (record["queueId"], record["queueOffset"]) == (one.queue_id, one.queue_offset)
    whole = [record for offset, record in by_offset.items() if offset not in damaged]
    copies = Counter(record["properties"]["KEYS"] for record in whole)
    foreign = copies.keys() - journal.tried.keys()
    assert not foreign, f"{len(foreign)} messages were never sent, such as {next(iter(foreign))}"
    too_often = {key: (times, journal.sent[key]) for key, times in copies.items() if times > journal.sent[key]}
    assert not too_often, (
        f"{len(too_often)} messages are stored more often than they were sent, such as {list(too_often.items())[:3]}"
    )
    _check_places(by_offset.values())
    return copies


def _check_places(found: Any) -> None:
    """Checks that the records of each queue have consecutive offsets in log order."""
    last: dict[int, int] = defaultdict(lambda: -1)
    for record in found:
        queue, offset = record["queueId"], record["queueOffset"]
        assert last[queue] in (-1, offset - 1), (
            f"queue {queue} goes from {last[queue]} to {offset} at {record['offset']}"
        )
        last[queue] = offset


def check_pulled(client: Client, copies: Counter[str], *, damaged: range = range(0)) -> list[Message]:
    """Checks that a consumer receives exactly what `check_log` found, except between the `damaged` offsets."""
    wait_until(lambda: _has_route(client), 60, "the route of the topic at the name server")
    client.await_pullable(TOPIC, copies.total())
    pulled = client.dump(TOPIC)
    assert Counter(message["keys"] for message in pulled if message["physicalOffset"] not in damaged) == copies
    return pulled


def _has_route(client: Client) -> bool:
    return bool(client.call("raw", address=client.server.name_server, code=105, ext={"topic": TOPIC})["code"] == 0)


def verify(store: Path, settings: dict[str, str] = SETTINGS) -> None:
    """Checks that `headrace store verify` finds nothing."""
    said = subprocess.run(
        [
            str(HEADRACE), "store", "verify", str(store),
            "--slots", settings["maxHashSlotNum"], "--entries", settings["maxIndexNum"],
        ],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout[-4000:]


def check_indexes(store: Path, scratch: Path) -> None:
    """Checks that the indexes of a log that begins at 0 equal, byte for byte, a rebuild from the log.

    The rebuild knows which topics were deleted, and when.
    """
    known = {key: value for key, value in SETTINGS.items() if key in keys_of(StoreConfig)}
    shutil.copytree(store / "commitlog", scratch / "commitlog")
    deleted = StorePaths(store).config_file(DELETED_TOPICS)
    if deleted.exists():
        (scratch / "config").mkdir()
        shutil.copy(deleted, scratch / "config")
    built = build(scratch, from_mapping(StoreConfig, known))
    ours = built_files(store)
    assert sorted(ours) == sorted(built)
    assert [name for name in built if ours[name] != built[name]] == []


def segments(store: Path) -> list[str]:
    """The existing shared memory segments of an appliance."""
    return sorted(path.name for path in SEGMENTS.glob(f"headrace-{instance_hash(store)}-*"))
