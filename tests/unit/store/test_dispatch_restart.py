"""Dispatch killed at every named place and started again: it leaves the bytes that it leaves when nobody kills it."""

import os
import re
from pathlib import Path

import pytest

from store.dispatch import cleaning, dispatcher
from store.inspect.verify import Finding, verify
from store.paths import StorePaths
from support.dispatched_store import SMALL, DispatchedStore, HandWrittenLog, build, built_files, dispatched_store

ROOT = Path(dispatcher.__file__).parents[1]

PLACES = [
    "consume_queue.file_made",
    "consume_queue.file_made:3",
    "consume_queue.filled",
    "index.file_made",
    "index.file_made:2",
    "index.file_begun:2",
    "index.entry_written:7",
    "index.end_offset_written:7",
    "index.end_written:7",
    "index.count_written:7",
    "index.count_written:40",
    "index.header_written:7",
    "index.header_written:79",
    "reput.walked",
    "reput.walked:2",
    "reput.rows_updated",
    "reput.rows_updated:2",
    "reput.rows_published",
    "reput.rows_published:2",
    "reput.published",
    "reput.published:2",
]


def write_log(root: Path) -> int:
    """Records of several queues over several files; one queue does not begin at 0. Returns the log's end."""
    paths = StorePaths(root)
    paths.make_directories()
    log = HandWrittenLog(paths, SMALL, next_offsets={("Late", 0): 63})
    for number in range(170):
        topic = "Late" if number % 10 == 9 else "Topic"
        keys = f"KEYS\x01key-{number % 7} all\x02UNIQ_KEY\x01U{number}\x02TAGS\x01TagA"
        log.append(topic, 0 if topic == "Late" else number % 2, properties=keys, body=bytes(700))
    return log.end


def restarted(store: DispatchedStore, place: str) -> None:
    assert store.killed_at(place), f"nobody came by {place}"
    store.dispatch()


@pytest.mark.parametrize("place", PLACES)
def test_restart_after_a_kill_anywhere_leaves_the_same_bytes(tmp_path: Path, place: str) -> None:
    end = write_log(tmp_path / "killed")
    write_log(tmp_path / "whole")
    with dispatched_store(tmp_path / "killed") as store:
        store.recovered(end)
        restarted(store, place)
        assert store.control.reput_offset == end
    assert built_files(tmp_path / "killed") == build(tmp_path / "whole", SMALL)


@pytest.mark.parametrize("place", ["reput.walked:2", "reput.rows_published:2", "index.count_written:40"])
def test_dispatch_continues_from_the_disk_after_the_whole_appliance_is_killed(tmp_path: Path, place: str) -> None:
    """The shared memory is gone; recovery says from where to dispatch again."""
    end = write_log(tmp_path / "killed")
    write_log(tmp_path / "whole")
    with dispatched_store(tmp_path / "killed") as store:
        store.recovered(end)
        assert store.killed_at(place)
    with dispatched_store(tmp_path / "killed") as store:
        store.recovered(end, reput_offset=0)
        store.dispatch()
    assert built_files(tmp_path / "killed") == build(tmp_path / "whole", SMALL)
    slots, entries = SMALL.max_hash_slot_num, SMALL.max_index_num
    assert [found for found in verify(tmp_path / "killed", slots, entries) if isinstance(found, Finding)] == [
        Finding("checkpoint", "checkpoint", "it is missing; the next start reads the whole log")
    ]


def test_every_fault_point_of_dispatch_is_tested() -> None:
    named = set()
    for folder in ("dispatch", "consume_queue", "index"):
        for source in (ROOT / folder).glob("*.py"):
            named |= set(re.findall(r'fault_point\("([a-z_.]+)"\)', source.read_text()))
    deleting = {  # test_dispatch_cleaning
        "consume_queue.file_deleted", "consume_queue.row_freed", "consume_queue.files_deleted", "cleaning.queues_dropped",
        "index.file_deleted",
    }  # fmt: skip
    assert named == {place.partition(":")[0] for place in PLACES} | deleting
    assert cleaning.__file__ is not None


def test_published_rows_never_decrease_across_a_restart(tmp_path: Path) -> None:
    """A consumer that has read up to the row's end must not find itself beyond it."""
    end = write_log(tmp_path)
    with dispatched_store(tmp_path) as store:
        store.recovered(end)
        assert store.killed_at("reput.rows_published:2")
        table = store.instance.queue_table()
        before = {(topic, queue_id): (low, high) for _, topic, queue_id, low, high, _ in table.rows()}
        assert before
        reopened = store.open()
        after = {(topic, queue_id): (low, high) for _, topic, queue_id, low, high, _ in table.rows()}
        assert after == before
        reopened.close()


def test_full_disk_stops_dispatch_until_space_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = write_log(tmp_path / "full")
    write_log(tmp_path / "whole")

    def refuse(*_: int) -> None:
        raise OSError(28, "no space")

    with dispatched_store(tmp_path / "full") as store:
        store.recovered(end)
        dispatching = store.open()
        with monkeypatch.context() as patched:
            patched.setattr(os, "posix_fallocate", refuse)
            for _ in range(30):
                assert not dispatching.try_batch()
                assert dispatching.failure is not None
            assert store.control.flag_queue_error
            assert store.control.reput_offset == 0
        while dispatching.try_batch():
            pass
        assert not store.control.flag_queue_error
        assert store.control.reput_offset == end
        dispatching.close()
    assert built_files(tmp_path / "full") == build(tmp_path / "whole", SMALL)


def test_index_creation_is_tried_three_times_before_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = write_log(tmp_path)
    with dispatched_store(tmp_path) as store:
        store.recovered(end)
        dispatching = store.open()
        store.paths.index.rename(tmp_path / "away")
        for _ in range(3):
            assert not store.control.flag_index_error
            assert not dispatching.try_batch()
        assert store.control.flag_index_error
        (tmp_path / "away").rename(store.paths.index)
        while dispatching.try_batch():
            pass
        assert not store.control.flag_index_error
        assert store.control.reput_offset == end
        dispatching.close()
