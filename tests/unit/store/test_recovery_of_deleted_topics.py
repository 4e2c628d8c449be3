"""Recovery and dispatch together: records from before a topic's deletion get no entry, whatever files were left; later ones do."""

import json
import shutil
from pathlib import Path

import pytest

from ipc.publish.recover import RecoverPublisher
from store.checkpoint import Checkpoint, write_checkpoint
from store.deleted_topics import DeletedTopicsUnreadable
from store.inspect.verify import Finding, verify
from store.recovery.recover import Recovered, recover
from support.dispatched_store import DispatchedStore
from support.store_files import FIRST_TIMESTAMP, LogBuilder, Written, entries_of, put_entry, small_config

LONG_AFTER = FIRST_TIMESTAMP + 10**9


class Store:
    """800 records of topics T and U; T was deleted after half of them and created again. No queue has an entry yet."""

    def __init__(self, root: Path) -> None:
        self.log = LogBuilder(small_config(root))
        self.paths = self.log.paths
        self.log.append_many(400)
        self.deleted_at = self.log.offset
        self.old = [record for record in self.log.written if record.topic == "T"]
        self.log._next = {key: 0 if key[0] == "T" else offset for key, offset in self.log._next.items()}
        self.log.append_many(400)
        self.new = [record for record in self.log.written[400:] if record.topic == "T"]
        self.others = [record for record in self.log.written if record.topic == "U"]
        self.write_deleted(T=self.deleted_at, Gone=self.log.offset)

    def write_deleted(self, **deleted: int) -> None:
        self.paths.config_file("deletedTopics.json").write_text(json.dumps({"deletedTopics": deleted}))

    def put(self, *records: Written) -> None:
        for record in records:
            put_entry(self.paths, record)

    def start(self, is_clean: bool, checkpoint: int = 0) -> Recovered:
        """Recovers and dispatches."""
        timestamp = LONG_AFTER if is_clean else checkpoint
        write_checkpoint(self.paths.checkpoint, Checkpoint(timestamp, timestamp, 0))
        if not is_clean:
            self.paths.abort.touch()
        found = recover(self.log.config, self.paths)
        store = DispatchedStore(self.paths, self.log.config)
        try:
            RecoverPublisher(store.control).first_values(
                min_offset=found.min_offset,
                wrote_offset=found.wrote_offset,
                allocated_offset=found.allocated_offset,
                reput_offset=found.reput_offset,
            )
            store.dispatch()
        finally:
            store.close()
        self.paths.abort.unlink(missing_ok=True)
        return found

    def assert_only_new_records_have_entries(self) -> None:
        for topic, records in (("T", self.new), ("U", self.others)):
            for queue_id in (0, 1):
                expected = [(one.physical_offset, one.size_bytes) for one in records if one.queue_id == queue_id]
                found = [entry[:2] for entry in entries_of(self.paths, topic, queue_id)]
                assert [entry for entry in found if entry != (0, 0x7FFFFFFF)] == expected
        findings = [
            one for one in verify(self.paths.root, 10, 20) if isinstance(one, Finding) and one.part == "consumequeue"
        ]
        assert findings == []


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.mark.parametrize("is_clean", [True, False])
def test_queues_of_the_new_topic_are_kept(store: Store, is_clean: bool) -> None:
    store.put(*store.new, *store.others)
    store.start(is_clean)
    store.assert_only_new_records_have_entries()


def test_files_of_the_deleted_topic_that_came_back_are_removed(store: Store) -> None:
    """As a power cut leaves them if neither the deletion of the files nor the new ones were synced."""
    store.put(*store.old, *store.others)
    store.start(is_clean=False)
    store.assert_only_new_records_have_entries()


@pytest.mark.parametrize("is_clean", [True, False])
def test_files_of_the_deleted_topic_are_removed_if_no_message_followed(store: Store, is_clean: bool) -> None:
    store.write_deleted(T=store.log.offset)
    store.new.clear()
    store.put(*store.old, *store.others)
    store.start(is_clean)
    store.assert_only_new_records_have_entries()
    assert not (store.paths.consume_queue / "T").exists()


@pytest.mark.parametrize("is_clean", [True, False])
def test_queues_rebuilt_from_the_log_have_only_new_records(store: Store, is_clean: bool) -> None:
    store.start(is_clean)
    store.assert_only_new_records_have_entries()


@pytest.mark.parametrize("is_clean", [True, False])
def test_lost_queue_of_a_topic_created_again_is_rebuilt(store: Store, is_clean: bool) -> None:
    store.put(*store.others)
    store.start(is_clean, checkpoint=store.log.written[700].store_timestamp)
    store.assert_only_new_records_have_entries()


@pytest.mark.parametrize("is_clean", [True, False])
def test_queue_with_old_and_new_records_is_rebuilt(tmp_path: Path, is_clean: bool) -> None:
    """RocketMQ dispatches records of deleted topics after a crash; messages that it takes then follow behind them."""
    store = Store(tmp_path / "pattern")
    log = LogBuilder(small_config(tmp_path / "store"))
    log.append_many(800)
    mixed = Store.__new__(Store)
    mixed.log, mixed.paths, mixed.deleted_at = log, log.paths, store.deleted_at
    mixed.new = [record for record in log.written if record.topic == "T" and record.physical_offset >= store.deleted_at]
    mixed.others = [record for record in log.written if record.topic == "U"]
    mixed.write_deleted(T=store.deleted_at)
    log.write_queues()
    found = mixed.start(is_clean, checkpoint=log.written[700].store_timestamp)
    assert found.reput_offset <= store.deleted_at
    mixed.assert_only_new_records_have_entries()


def test_log_that_ends_before_the_deletion_has_no_entry_of_the_topic(store: Store) -> None:
    """After a power cut the deletion is durable, and the last records before it are lost."""
    store.write_deleted(T=store.log.offset + 1000)
    store.new.clear()
    store.put(*store.old, *store.others)
    store.start(is_clean=False)
    store.assert_only_new_records_have_entries()


def test_recovery_is_repeatable(store: Store) -> None:
    store.put(*store.old, *store.others)
    recover(store.log.config, store.paths)
    store.start(is_clean=False)
    store.start(is_clean=False)
    store.assert_only_new_records_have_entries()


def test_backup_is_used_if_the_file_is_damaged(store: Store) -> None:
    path = store.paths.config_file("deletedTopics.json")
    shutil.copy(path, path.with_name("deletedTopics.json.bak"))
    path.write_text("{")
    store.start(is_clean=False)
    store.assert_only_new_records_have_entries()


def test_unreadable_file_stops_recovery_before_anything_is_changed(store: Store) -> None:
    store.put(*store.old)
    store.paths.config_file("deletedTopics.json").write_text("{")
    with pytest.raises(DeletedTopicsUnreadable, match="restore the file"):
        store.start(is_clean=False)
    assert len(entries_of(store.paths, "T", 0)) == 100
