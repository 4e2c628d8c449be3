"""ConsumeQueueWriter: what is put where, what is taken over after a kill, what is deleted."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE, FILLER_SIZE
from ipc.posix import anonymous_segment
from ipc.queue_table import QueueTable, QueueTableWriter, format_queue_table, size_bytes
from store.config import StoreConfig
from store.consume_queue import sparse_file
from store.consume_queue.writer import ConsumeQueueWriter, QueueNameRefused
from store.errors import StoreFull
from store.paths import StorePaths
from support.descriptors import settled_descriptors
from support.dispatched_store import entries_of

IN_FILE = 50
CONFIG = StoreConfig(mapped_file_size_consume_queue=IN_FILE * ENTRY_SIZE)
NOTHING_PUBLISHED = 0
FILLER = (0, FILLER_SIZE, 0)


class Queues:
    """A writer and the table that it publishes to, which outlives it."""

    def __init__(self, root: Path, capacity: int = 64) -> None:
        self.paths = StorePaths(root)
        self.paths.make_directories()
        segment = anonymous_segment(size_bytes(capacity))
        format_queue_table(segment, "0", capacity)
        self.segment = segment
        self.table = QueueTable(segment)
        self.writer = self.start()

    def start(
        self, reput_offset: int = NOTHING_PUBLISHED, min_offset: int = 0, max_open: int = 0
    ) -> ConsumeQueueWriter:
        self.writer = ConsumeQueueWriter(self.paths, CONFIG, QueueTableWriter(self.segment), max_open)
        self.writer.load(reput_offset, min_offset)
        return self.writer

    def forget_shared_memory(self, capacity: int = 64) -> None:
        self.segment = anonymous_segment(size_bytes(capacity))
        format_queue_table(self.segment, "0", capacity)
        self.table = QueueTable(self.segment)

    def put(self, queue_offset: int, physical_offset: int, topic: bytes = b"Topic", queue_id: int = 0) -> None:
        self.writer.put(self.writer.open(topic, queue_id), physical_offset, 10, 7, queue_offset)

    def put_some(self, first: int, last: int, topic: bytes = b"Topic") -> None:
        for queue_offset in range(first, last):
            self.put(queue_offset, queue_offset * 10, topic)

    def read(self, topic: str = "Topic", queue_id: int = 0) -> list[tuple[int, int, int]]:
        files = sorted(self.paths.queue(topic, queue_id).iterdir())
        return [entry for file in files for entry in entries_of(file.read_bytes())]

    def names(self, topic: str = "Topic") -> list[int]:
        return [int(file.name) // ENTRY_SIZE for file in sorted(self.paths.queue(topic, 0).iterdir())]

    def bounds(self, topic: bytes = b"Topic", queue_id: int = 0) -> tuple[int, int, int]:
        return self.table.bounds(self.table.find(topic, queue_id))


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[Queues]:
    found = Queues(tmp_path)
    yield found
    found.writer.close()


def test_entries_are_in_order_in_files_of_full_length(queues: Queues) -> None:
    queues.put_some(0, 120)
    assert queues.read() == [(number * 10, 10, 7) for number in range(120)]
    assert queues.names() == [0, 50, 100]
    assert {file.stat().st_size for file in queues.paths.queue("Topic", 0).iterdir()} == {IN_FILE * ENTRY_SIZE}


def test_unpublished_entries_are_not_visible(queues: Queues) -> None:
    queues.put_some(0, 3)
    assert queues.bounds() == (0, 0, -1)
    assert queues.writer.publish() == [queues.table.find(b"Topic", 0)]
    assert queues.bounds() == (0, 3, 30)
    assert queues.writer.publish() == []


def test_existing_entries_are_not_written_again(queues: Queues) -> None:
    queues.put_some(0, 5)
    queues.put_some(0, 6)
    assert [entry[0] for entry in queues.read()] == [0, 10, 20, 30, 40, 50]


def test_queue_that_begins_above_0_begins_with_fillers(queues: Queues) -> None:
    queues.put(53, 700)
    queues.writer.publish()
    assert queues.names() == [50]
    assert queues.read() == [FILLER, FILLER, FILLER, (700, 10, 7)]
    assert queues.bounds() == (53, 54, 710)


def test_queue_that_begins_with_a_file_needs_no_fillers(queues: Queues) -> None:
    queues.put(100, 700)
    assert (queues.names(), queues.read()) == ([100], [(700, 10, 7)])


def test_entry_beyond_the_end_is_written_at_the_end_of_the_queue(queues: Queues) -> None:
    queues.put(0, 0)
    queues.put(5, 50)
    assert [entry[0] for entry in queues.read()] == [0, 50]


def test_entry_of_a_lower_offset_is_ignored_as_a_repetition(queues: Queues) -> None:
    queues.put_some(0, 3)
    queues.put(1, 500)
    assert [entry[0] for entry in queues.read()] == [0, 10, 20]


def test_thousands_of_queues_need_few_mappings(queues: Queues) -> None:
    writer = queues.start(max_open=8)
    for turn in range(3):
        for queue_id in range(100):
            queues.put(turn, 10 * (100 * turn + queue_id), queue_id=queue_id)
        assert sum(cursor.window is not None for cursor in writer.queues()) <= 8
    assert all(len(queues.read(queue_id=queue_id)) == 3 for queue_id in range(100))


def test_mapped_queues_take_no_descriptors(queues: Queues) -> None:
    before = len(settled_descriptors())
    for queue_id in range(100):
        queues.put(0, 10 * queue_id, queue_id=queue_id)
    assert sum(cursor.window is not None for cursor in queues.writer.queues()) == 100
    assert len(os.listdir("/proc/self/fd")) == before


def test_window_follows_the_position_through_a_file(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of two and a half entries: each but the first begins in a page that the one before wrote to."""
    monkeypatch.setattr(sparse_file, "RESERVED_BYTES", 50)
    queues.put_some(0, 3 * IN_FILE)
    assert [entry[0] for entry in queues.read()] == [10 * number for number in range(3 * IN_FILE)]


def test_restarted_writer_continues_from_the_published_rows(queues: Queues) -> None:
    queues.put_some(0, 60)
    queues.writer.publish()
    queues.put_some(60, 120)  # not published: the next one writes them again, over the same bytes
    queues.start(reput_offset=600)
    assert queues.bounds() == (0, 60, 600)
    assert queues.names() == [0, 50]
    queues.put_some(40, 120)
    assert queues.read() == [(number * 10, 10, 7) for number in range(120)]


def test_restarted_writer_removes_a_queue_that_was_never_published(queues: Queues) -> None:
    queues.put(53, 700)
    queues.start(reput_offset=700)
    assert queues.table.find(b"Topic", 0) == -1
    queues.put(53, 700)
    assert queues.read() == [FILLER, FILLER, FILLER, (700, 10, 7)]


def test_queue_continues_from_its_last_entry_after_a_crash(queues: Queues) -> None:
    queues.put_some(0, 73)
    queues.forget_shared_memory()
    queues.start(reput_offset=730)
    assert queues.bounds() == (0, 73, 730)
    queues.put_some(70, 75)
    assert len(queues.read()) == 75


def test_last_entry_is_written_again_if_its_record_is_dispatched_again(queues: Queues) -> None:
    queues.put_some(0, 51)
    with (queues.paths.queue("Topic", 0) / f"{50 * ENTRY_SIZE:020d}").open("r+b") as file:
        file.write(ENTRY.pack(500, 10, 0))  # torn: without its tags code
    queues.forget_shared_memory()
    queues.start(reput_offset=300)
    assert queues.bounds() == (0, 50, 500)
    queues.put_some(30, 52)
    assert queues.read()[50:] == [(500, 10, 7), (510, 10, 7)]


def test_queue_of_fillers_only_is_ignored(queues: Queues) -> None:
    queues.put(53, 700)
    with (queues.paths.queue("Topic", 0) / f"{50 * ENTRY_SIZE:020d}").open("r+b") as file:
        file.seek(3 * ENTRY_SIZE)
        file.write(bytes(ENTRY_SIZE))
    queues.forget_shared_memory()
    queues.start(reput_offset=700)
    assert queues.table.find(b"Topic", 0) == -1
    queues.put(53, 700)
    assert len(queues.read()) == 4


def test_files_below_the_minimum_of_the_log_are_deleted_and_the_minimum_moves(queues: Queues) -> None:
    queues.put_some(0, 160)
    queues.writer.publish()
    for _ in queues.writer.clean_expired(1105):
        pass
    queues.writer.publish()
    assert queues.names() == [100, 150]
    assert queues.bounds() == (111, 160, 1600)


def test_last_file_of_a_queue_is_kept_even_if_all_its_records_are_deleted(queues: Queues) -> None:
    queues.put_some(0, 60)
    for _ in queues.writer.clean_expired(10_000):
        pass
    queues.writer.publish()
    assert queues.names() == [50]
    assert queues.bounds() == (50, 60, 600)


def test_minimum_is_corrected_when_a_store_is_opened(queues: Queues) -> None:
    queues.put_some(0, 60)
    queues.forget_shared_memory()
    queues.start(reput_offset=600, min_offset=95)
    assert queues.bounds() == (10, 60, 600)


@pytest.mark.parametrize("is_swept", [True, False])
def test_dropped_queue_leaves_nothing_and_can_be_created_again(queues: Queues, is_swept: bool) -> None:
    queues.put_some(0, 60)
    queues.put(0, 990, queue_id=1)
    cursor = queues.writer.find(b"Topic", 0)
    assert cursor is not None
    queues.writer.drop(cursor)
    queues.writer.publish()
    assert queues.table.find(b"Topic", 0) == -1
    if is_swept:
        assert len(list(queues.writer.sweep())) == 1
        assert [entry.name for entry in (queues.paths.consume_queue / "Topic").iterdir()] == ["1"]
    queues.put(0, 2000)
    assert queues.read() == [(2000, 10, 7)]
    assert list(queues.writer.sweep()) == []
    assert queues.read() == [(2000, 10, 7)]


def test_queue_dropped_while_expired_files_are_deleted_is_left_alone(queues: Queues) -> None:
    for queue_id in range(2):
        for offset in range(60):
            queues.put(offset, offset * 10, queue_id=queue_id)
    cleaning = queues.writer.clean_expired(595)
    next(cleaning)
    cursor = queues.writer.find(b"Topic", 1)
    assert cursor is not None
    queues.writer.drop(cursor)
    list(queues.writer.sweep())
    list(cleaning)
    queues.writer.publish()
    assert queues.table.find(b"Topic", 1) == -1
    assert queues.bounds()[0] == 50


def test_full_queue_table_is_reported_and_the_queue_is_still_written(tmp_path: Path) -> None:
    queues = Queues(tmp_path, capacity=1)
    queues.put(0, 0, b"One")
    queues.put(0, 10, b"Two")
    assert queues.writer.is_table_full
    assert len(queues.writer.publish()) == 1
    assert queues.read("Two") == [(10, 10, 7)]
    queues.writer.close()


@pytest.mark.parametrize("topic", [b"", b"..", b".", b"a/b", b"../../etc", b"x\0y", b"x" * 256])
def test_topic_that_cannot_name_a_directory_gets_no_queue(queues: Queues, topic: bytes) -> None:
    with pytest.raises(QueueNameRefused):
        queues.writer.open(topic, 0)


def test_negative_queue_id_gets_no_queue(queues: Queues) -> None:
    with pytest.raises(QueueNameRefused):
        queues.writer.open(b"Topic", -1)


@pytest.mark.parametrize("before", [0, 50])
def test_full_disk_writes_no_entry_and_writing_resumes_afterwards(
    queues: Queues, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    queues.put_some(0, before)

    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(StoreFull):
            queues.put(before, before * 10)
    queues.put(before, before * 10)
    assert len(queues.read()) == before + 1
