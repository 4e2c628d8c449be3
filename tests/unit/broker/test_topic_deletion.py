"""Deletion of topics: durable in one step wherever the broker dies, and forgotten when the log no longer has the records."""

import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from broker.config import BrokerConfig
from broker.errors import ConfigFileUnreadable
from broker.json_file import JsonFile
from broker.topics.deleted_topics import DeletedTopicTable
from broker.topics.topic_deletion import TopicDeletion
from broker.topics.topics import TopicTable
from headrace.model.topic_config import TopicConfig
from store import fault_point
from store.deleted_topics import read_deleted_topics
from store.paths import StorePaths


@dataclass
class World:
    """A broker's two files about topics, and what the others are told."""

    root: Path
    log_end: int = 1000
    queued: set[bytes] = field(default_factory=set)
    forgotten: list[bytes] = field(default_factory=list)
    told: int = 0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """As a broker that is started."""
        paths = StorePaths(self.root)
        config = BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1")
        self.topics = TopicTable(JsonFile(paths.config_file("topics.json")), config)
        self.deleted = DeletedTopicTable(JsonFile(paths.config_file("deletedTopics.json")), self.topics)
        self.deleted.on_change(self.tell)
        self.deletion = TopicDeletion(
            self.topics, self.deleted, lambda: self.log_end, lambda: self.queued, self.forgotten.append
        )

    def tell(self) -> None:
        self.told += 1

    def create(self, *names: str) -> None:
        for name in names:
            self.topics.put(TopicConfig(name, 1, 1))

    def on_disk(self) -> dict[bytes, int]:
        return read_deleted_topics(StorePaths(self.root))

    def killed_at(self, place: str, work: Any) -> None:
        child = os.fork()
        if child == 0:
            os.environ.pop(fault_point.ONCE, None)
            fault_point.arm(place)
            try:
                work()
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_deletion_records_the_end_of_the_log(world: World) -> None:
    world.create("Orders", "Bills")
    assert world.deletion.delete("Orders")
    assert world.on_disk() == {b"Orders": 1000}
    assert world.topics.find("Orders") is None
    assert (world.forgotten, world.told) == ([b"Orders"], 1)
    world.create("Orders")
    assert world.on_disk() == {b"Orders": 1000}


def test_unknown_topic_leaves_no_trace(world: World) -> None:
    assert not world.deletion.delete("Nobody")
    assert world.on_disk() == {}
    assert world.told == 0


def test_unused_queues_are_deleted_except_those_of_lite_and_system_topics(world: World) -> None:
    world.create("Orders")
    world.queued = {b"Orders", b"Lost", b"%LMQ%light", b"SCHEDULE_TOPIC_XXXX", b"RMQ_SYS_TRANS_OP_HALF_TOPIC"}
    world.deletion.delete_unused()
    assert world.on_disk() == {b"Lost": 1000}
    assert world.forgotten == [b"Lost"]


@pytest.mark.parametrize(
    ("place", "is_deleted"),
    [("topic_deletion.marked", False), ("topic_deletion.removed", True), ("topic_deletion.settled", True)],
)
def test_deletion_is_atomic_when_the_broker_is_killed(world: World, place: str, is_deleted: bool) -> None:
    world.create("Orders")
    world.deletion.delete("Orders")
    world.create("Orders")
    world.log_end = 3000
    world.killed_at(place, lambda: world.deletion.delete("Orders"))
    assert world.on_disk()[b"Orders"] == (3000 if place.endswith("settled") else 1000)
    world.start()
    world.deleted.recover(min_offset=0, wrote_offset=3000)
    assert (world.topics.find("Orders") is None) == is_deleted
    assert world.on_disk() == {b"Orders": 3000 if is_deleted else 1000}
    assert world.told > 0


@pytest.mark.parametrize("fails", ["deletedTopics.json", "topics.json"])
def test_deletion_refused_by_a_full_disk_does_not_happen_later(
    world: World, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("Orders")
    write = JsonFile.write

    def write_or_fail(self: JsonFile, text: str, turn: int) -> None:
        if self.path.name == fails:
            raise OSError(28, "No space left on device")
        write(self, text, turn)

    with monkeypatch.context() as patched:
        patched.setattr(JsonFile, "write", write_or_fail)
        with pytest.raises(OSError, match="No space"):
            world.deletion.delete("Orders")
    assert world.topics.find("Orders") is not None
    world.log_end = 2000
    world.start()
    world.deleted.recover(min_offset=0, wrote_offset=2000)
    assert world.topics.find("Orders") is not None
    assert world.on_disk() == {}


def test_topic_is_not_created_again_while_its_deletion_cannot_be_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("Orders")
    save, times = JsonFile.save, []

    def save_once(self: JsonFile, text: str) -> None:
        if self.path.name == "deletedTopics.json":
            times.append(text)
            if len(times) > 1:
                raise OSError(28, "No space left on device")
        save(self, text)

    with monkeypatch.context() as patched:
        patched.setattr(JsonFile, "save", save_once)
        with pytest.raises(OSError, match="No space"):
            world.deletion.delete("Orders")
        assert world.topics.find("Orders") is None
        assert world.forgotten == [b"Orders"]
        with pytest.raises(OSError, match="No space"):
            world.create("Orders")
        assert world.topics.find("Orders") is None
    world.create("Orders")
    assert world.on_disk() == {b"Orders": 1000}
    assert world.told == 1


def test_offset_beyond_the_log_is_lowered_before_anything_is_appended(world: World) -> None:
    """A power cut took the last records before the deletion; what is appended in their place is new."""
    world.create("Orders")
    world.deletion.delete("Orders")
    world.start()
    world.deleted.recover(min_offset=0, wrote_offset=700)
    assert world.on_disk() == {b"Orders": 700}
    assert world.deleted.offset_of(b"Orders") == 700


def test_deletions_below_the_minimum_of_the_log_are_removed(world: World) -> None:
    world.create("Orders", "Bills")
    world.deletion.delete("Orders")
    world.log_end = 5000
    world.deletion.delete("Bills")
    world.start()
    world.deleted.recover(min_offset=1000, wrote_offset=5000)
    assert world.on_disk() == {b"Bills": 5000}


def test_non_unicode_topic_is_stored_by_its_bytes(world: World) -> None:
    world.queued = {b"caf\xe9"}
    world.deletion.delete_unused()
    assert world.on_disk() == {b"caf\xe9": 1000}
    world.start()
    assert world.deleted.offset_of(b"caf\xe9") == 1000


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"deletedTopics": {"Orders": -1}})])
def test_unreadable_file_prevents_the_start(world: World, text: str) -> None:
    (world.root / "config").mkdir()
    (world.root / "config" / "deletedTopics.json").write_text(text)
    with pytest.raises(ConfigFileUnreadable, match=r"deletedTopics\.json"):
        world.start()
