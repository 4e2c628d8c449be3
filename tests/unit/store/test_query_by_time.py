"""Queue offsets by time: the nearest message, over several files, with messages of one millisecond, and with none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.commit_log.reader import CommitLogReader
from store.consume_queue.reader import ConsumeQueueReader
from store.query.by_time import TimeQuery
from support.damage import damage
from support.dispatched_store import FIRST_TIMESTAMP, SMALL, DispatchedStore, HandWrittenLog, dispatched_store

T = FIRST_TIMESTAMP


class Asked:
    """A store whose messages have given times."""

    def __init__(self, store: DispatchedStore) -> None:
        self.store = store
        self.log = HandWrittenLog(store.paths, store.config)
        self.places: list[int] = []
        self.queues = ConsumeQueueReader(store.paths, store.config, store.instance.queue_table())
        self.reader = CommitLogReader(store.paths, store.config, store.control)
        self.query = TimeQuery(self.queues, self.reader)

    def store_at(self, *times: int) -> None:
        self.places = [self.log.append(store_timestamp=T + time) for time in times]
        self.store.recovered(self.log.end)
        self.store.dispatch()

    def at(self, time: int) -> int:
        return self.query.offset_at("Topic", 0, T + time)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with dispatched_store(tmp_path) as store:
        found = Asked(store)
        yield found
        found.queues.close()
        found.reader.close()


@pytest.mark.parametrize(
    ("time", "offset"), [(-5, 0), (0, 0), (4, 0), (5, 0), (6, 1), (10, 1), (14, 1), (16, 2), (30, 3), (99, 3)]
)
def test_nearest_message_by_time_is_found_preferring_the_earlier(asked: Asked, time: int, offset: int) -> None:
    asked.store_at(0, 10, 20, 30)
    assert asked.at(time) == offset


def test_message_is_found_by_time_across_many_files(asked: Asked) -> None:
    asked.store_at(*[10 * number for number in range(230)])
    assert [asked.at(10 * number) for number in range(230)] == list(range(230))
    assert asked.at(499) == 50
    assert asked.at(10**9) == 229


def test_one_of_several_messages_of_a_millisecond_is_found(asked: Asked) -> None:
    asked.store_at(0, 10, 10, 10, 10, 20)
    assert 1 <= asked.at(10) <= 4


def test_queue_without_messages_has_offset_0(asked: Asked) -> None:
    asked.store.recovered(0)
    assert asked.query.offset_at("Missing", 0, T) == 0
    assert asked.query.earliest_timestamp("Missing", 0) == -1


def test_store_time_is_read_once_while_the_message_is_stored(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.store_at(0, 10, 20)
    assert [asked.query.timestamp_at("Topic", 0, offset) for offset in range(4)] == [T, T + 10, T + 20, -1]
    with monkeypatch.context() as patched:
        patched.setattr(asked.queues, "peek", None)
        assert asked.query.timestamp_at("Topic", 0, 1) == T + 10
    asked.store.min_offset(asked.places[2])
    assert [asked.query.timestamp_at("Topic", 0, offset) for offset in range(3)] == [-1, -1, T + 20]


def test_store_time_is_read_again_when_a_queue_was_added(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is deleted and created again has other messages at its offsets."""
    asked.store_at(0)
    asked.query.timestamp_at("Topic", 0, 0)
    monkeypatch.setattr(ConsumeQueueReader, "changes", property(lambda _: 1 << 40))
    monkeypatch.setattr(asked.queues, "peek", lambda *_: None)
    assert asked.query.timestamp_at("Topic", 0, 0) == -1


def test_deleted_messages_count_as_too_early(asked: Asked) -> None:
    asked.store_at(*[10 * number for number in range(230)])
    asked.store.min_offset(asked.places[120])
    assert asked.at(0) == 120
    assert asked.at(1230) == 123
    asked.store.min_offset(asked.log.end)
    assert asked.at(0) >= 0


def test_timestamp_of_one_message_is_returned(asked: Asked) -> None:
    asked.store_at(0, 10, 25)
    assert [asked.query.timestamp_at("Topic", 0, offset) for offset in range(4)] == [T, T + 10, T + 25, -1]
    assert asked.query.earliest_timestamp("Topic", 0) == T
    asked.store.min_offset(asked.places[1])
    assert asked.query.timestamp_at("Topic", 0, 0) == -1


@pytest.mark.parametrize("hit", [range(50, 54), range(98, 103), range(113, 118), range(228, 230), range(3)])
def test_damage_hides_no_other_message_from_the_search(asked: Asked, hit: range) -> None:
    asked.store_at(*[10 * number for number in range(230)])
    for number in hit:
        damage(asked.store.paths.commit_log, SMALL.mapped_file_size_commit_log, asked.places[number], 60)
    for number in range(230):
        if number not in hit:
            assert asked.at(10 * number) == number, number
        else:
            assert hit.start - 1 <= asked.at(10 * number) <= hit.stop


def test_earliest_time_is_that_of_the_first_readable_message(asked: Asked) -> None:
    asked.store_at(0, 10, 20)
    damage(asked.store.paths.commit_log, SMALL.mapped_file_size_commit_log, asked.places[0], 60)
    assert asked.query.earliest_timestamp("Topic", 0) == T + 10
