"""Cleaning: what expires with the log, and what goes with its topic."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipc.publish.broker import BrokerPublisher
from store.deleted_topics import DeletedTopicsUnreadable
from store.dispatch.dispatcher import Dispatcher
from store.paths import StorePaths, file_name
from support.dispatched_store import SMALL, DispatchedStore, HandWrittenLog, dispatched_store, entries_of

FILE = SMALL.mapped_file_size_commit_log


class Store:
    """Three CommitLog files, dispatched."""

    def __init__(self, store: DispatchedStore) -> None:
        self.store = store
        log = HandWrittenLog(store.paths, store.config)
        while log.end < 2 * FILE + 1000:
            log.append(properties="KEYS\x01key")
            log.append("%LMQ%light")
            log.append("SCHEDULE_TOPIC_XXXX")
        self.log = log
        store.recovered(log.end)
        self.reput: Dispatcher = store.open()
        while self.reput.try_batch():
            pass

    def clean(self) -> int:
        steps = 0
        while self.reput.cleaning.is_due:
            self.reput.cleaning.step()
            steps += 1
        return steps

    def bounds(self, topic: str) -> tuple[int, int]:
        table = self.store.instance.queue_table()
        row = table.find(topic.encode(), 0)
        return table.bounds(row)[:2] if row >= 0 else (-1, -1)

    def queues(self) -> list[str]:
        return sorted(path.name for path in self.store.paths.consume_queue.iterdir() if path.is_dir())

    def write_deleted(self, **deleted: int) -> None:
        text = json.dumps({"deletedTopics": deleted, "beingDeleted": {"SCHEDULE_TOPIC_XXXX": self.log.end}})
        self.store.paths.config_file("deletedTopics.json").write_text(text)

    def dispatch(self) -> None:
        self.store.wrote(self.log.end)
        while self.reput.try_batch():
            pass
        assert self.reput.failure is None, self.reput.failure

    def ask(self) -> None:
        BrokerPublisher(self.store.control).clean_topics_requests()


@pytest.fixture
def dispatched(tmp_path: Path) -> Iterator[Store]:
    with dispatched_store(tmp_path) as store:
        found = Store(store)
        yield found
        found.reput.close()


def test_queue_and_index_files_are_deleted_with_the_log(dispatched: Store) -> None:
    paths = dispatched.store.paths
    before = sorted(path.name for path in paths.index.iterdir())
    assert not dispatched.reput.cleaning.is_due
    (paths.commit_log / file_name(0)).unlink()
    dispatched.store.min_offset(FILE)
    dispatched.clean()
    low, high = dispatched.bounds("Topic")
    first = min(int(path.name) for path in paths.queue("Topic", 0).iterdir())
    assert first > 0
    assert first <= low * 20 < first + SMALL.consume_queue_file_size
    assert high == dispatched.log.next_offsets["Topic", 0]
    after = sorted(path.name for path in paths.index.iterdir())
    assert 0 < len(after) < len(before)
    assert after == before[-len(after) :]


def test_only_queues_of_deleted_topics_are_removed(dispatched: Store) -> None:
    dispatched.write_deleted(Topic=dispatched.log.end)
    dispatched.ask()
    assert dispatched.reput.cleaning.is_due
    dispatched.clean()
    assert dispatched.queues() == ["%LMQ%light", "SCHEDULE_TOPIC_XXXX"]
    assert dispatched.bounds("Topic") == (-1, -1)
    assert dispatched.store.control.clean_topics_handled == 1


def test_topic_created_again_begins_at_offset_zero(dispatched: Store) -> None:
    dispatched.write_deleted(Topic=dispatched.log.end)
    dispatched.ask()
    dispatched.clean()
    dispatched.log.next_offsets["Topic", 0] = 0
    dispatched.log.append()
    dispatched.dispatch()
    assert dispatched.bounds("Topic") == (0, 1)


def test_topic_created_again_before_dispatch_has_cleaned_begins_at_offset_zero(dispatched: Store) -> None:
    """A busy dispatch has no moment for cleaning; it must not put new entries behind old ones."""
    dispatched.log.append()  # not dispatched when the topic is deleted
    dispatched.write_deleted(Topic=dispatched.log.end)
    dispatched.ask()
    dispatched.log.next_offsets["Topic", 0] = 0
    first = dispatched.log.append()
    dispatched.log.append()
    dispatched.dispatch()
    assert dispatched.bounds("Topic") == (0, 2)
    [path] = dispatched.store.paths.queue("Topic", 0).iterdir()
    assert [entry[0] for entry in entries_of(path.read_bytes())][:1] == [first]
    dispatched.clean()
    assert dispatched.bounds("Topic") == (0, 2)


def test_restarted_dispatch_removes_what_its_predecessor_left_of_a_deleted_topic(dispatched: Store) -> None:
    dispatched.write_deleted(Topic=dispatched.log.end)
    dispatched.reput.close()
    dispatched.reput = dispatched.store.open()
    assert dispatched.bounds("Topic") == (-1, -1)
    assert dispatched.bounds("%LMQ%light")[1] > 0


@pytest.mark.parametrize("text", ["{", "[]", '{"deletedTopics":{"Topic":"x"}}', '{"deletedTopics":{"Topic":-1}}'])
def test_unreadable_deletions_stop_dispatch_with_one_line(dispatched: Store, text: str) -> None:
    before = dispatched.queues()
    dispatched.store.paths.config_file("deletedTopics.json").write_text(text)
    dispatched.ask()
    with pytest.raises(DeletedTopicsUnreadable, match=r"deletedTopics.json: .*; restore the file"):
        dispatched.clean()
    dispatched.log.append()
    dispatched.store.wrote(dispatched.log.end)
    assert not dispatched.reput.try_batch()
    assert isinstance(dispatched.reput.failure, DeletedTopicsUnreadable)
    assert dispatched.queues() == before
    assert dispatched.store.control.clean_topics_handled == 0
    dispatched.write_deleted()
    dispatched.dispatch()
    dispatched.clean()
    assert dispatched.store.control.clean_topics_handled == 1


def test_records_below_the_minimum_are_skipped(dispatched: Store) -> None:
    at = dispatched.log.append()
    dispatched.log.end = 4 * FILE
    dispatched.log.append()
    dispatched.store.min_offset(4 * FILE)
    dispatched.store.wrote(dispatched.log.end)
    while dispatched.reput.try_batch():
        pass
    assert at < 4 * FILE
    assert dispatched.store.control.reput_offset == dispatched.log.end


@pytest.mark.parametrize("place", ["consume_queue.file_deleted", "consume_queue.file_deleted:2", "index.file_deleted"])
def test_restarted_dispatch_continues_an_interrupted_deletion(tmp_path: Path, place: str) -> None:
    with dispatched_store(tmp_path) as store:
        first = Store(store)
        first.reput.close()
        store.min_offset(FILE)

        def clean_again() -> None:
            second = store.open()
            while second.cleaning.is_due:
                second.cleaning.step()
            second.close()

        killed = DispatchedStore.killed_at
        store.dispatch = clean_again  # type: ignore[method-assign]
        assert killed(store, place)
        clean_again()
        starts = sorted(int(path.name) for path in StorePaths(tmp_path).queue("Topic", 0).iterdir())
        assert starts[0] <= first.bounds("Topic")[0] * 20 < starts[0] + SMALL.consume_queue_file_size


@pytest.mark.parametrize("place", ["consume_queue.row_freed", "cleaning.queues_dropped", "consume_queue.files_deleted"])
def test_restarted_dispatch_completes_the_removal_of_a_deleted_topic(tmp_path: Path, place: str) -> None:
    with dispatched_store(tmp_path) as store:
        first = Store(store)
        first.reput.close()

        def delete_topic() -> None:
            second = store.open()
            first.write_deleted(Topic=first.log.end)
            first.ask()
            while second.cleaning.is_due:
                second.cleaning.step()
            second.close()

        killed = DispatchedStore.killed_at
        store.dispatch = delete_topic  # type: ignore[method-assign]
        assert killed(store, place)
        assert first.bounds("Topic") == (-1, -1)
        first.reput = store.open()
        first.clean()
        assert first.queues() == ["%LMQ%light", "SCHEDULE_TOPIC_XXXX"]
        assert first.bounds("Topic") == (-1, -1)
        first.reput.close()
