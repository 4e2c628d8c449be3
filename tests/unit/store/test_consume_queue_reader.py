"""ConsumeQueueReader: published entries and no others, through deletion and re-creation of queues."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.protocol.consume_queue_layout import ENTRY_SIZE
from ipc.posix import anonymous_segment
from ipc.queue_table import QueueTable, QueueTableWriter, format_queue_table, size_bytes
from store.config import StoreConfig
from store.consume_queue.reader import ConsumeQueueReader
from store.consume_queue.writer import ConsumeQueueWriter
from store.paths import StorePaths
from support.dispatched_store import entries_of

CONFIG = StoreConfig(mapped_file_size_consume_queue=50 * ENTRY_SIZE)


class Pair:
    """A writer and a reader over one table."""

    def __init__(self, root: Path) -> None:
        paths = StorePaths(root)
        paths.make_directories()
        segment = anonymous_segment(size_bytes(64))
        format_queue_table(segment, "0", 64)
        self.writer = ConsumeQueueWriter(paths, CONFIG, QueueTableWriter(segment))
        self.table = QueueTable(segment)
        self.reader = ConsumeQueueReader(paths, CONFIG, self.table, max_open=2)

    def put(self, first: int, last: int, topic: bytes = b"Topic", start: int = 0) -> None:
        for queue_offset in range(first, last):
            self.writer.put(self.writer.open(topic, 0), start + queue_offset * 10, 10, 7, queue_offset)
        self.writer.publish()

    def offsets(self, queue_offset: int, topic: str = "Topic") -> list[int] | None:
        data = self.reader.entries(topic, 0, queue_offset)
        return None if data is None else [entry[0] for entry in entries_of(bytes(data))]


class Published(Pair):
    """Reads with `published`, as the hot path of pulls."""

    def offsets(self, queue_offset: int, topic: str = "Topic") -> list[int] | None:
        found = self.reader.published(topic, 0, queue_offset)
        if found is None:
            return None
        assert (found.least, found.most) == self.reader.bounds(topic, 0)
        offsets = [entry[0] for entry in entries_of(bytes(found.view[found.begin : found.end]))]
        assert found.physical_offset == offsets[0]
        return offsets


@pytest.fixture(params=[Pair, Published])
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    found: Pair = request.param(tmp_path)
    yield found
    found.reader.close()
    found.writer.close()


def test_entries_end_at_the_published_end(pair: Pair) -> None:
    pair.put(0, 3)
    pair.writer.put(pair.writer.open(b"Topic", 0), 30, 10, 7, 3)
    assert pair.offsets(1) == [10, 20]
    assert pair.offsets(3) is None
    pair.writer.publish()
    assert pair.offsets(3) == [30]


def test_entries_end_at_the_end_of_their_file(pair: Pair) -> None:
    pair.put(0, 70)
    assert pair.offsets(48) == [480, 490]
    assert pair.offsets(50) == [number * 10 for number in range(50, 70)]


def test_one_entry_is_read_with_all_its_fields(pair: Pair) -> None:
    pair.put(0, 3)
    assert pair.reader.entry("Topic", 0, 2) == (20, 10, 7)
    assert pair.reader.entry(b"Topic", 0, 3) is None


def test_peek_reads_an_entry_without_mapping_its_file(tmp_path: Path, pair: Pair) -> None:
    pair.put(0, 70)
    pair.writer.close()
    assert [pair.reader.peek("Topic", 0, offset) for offset in (0, 49, 50, 69)] == [
        (0, 10, 7), (490, 10, 7), (500, 10, 7), (690, 10, 7),
    ]  # fmt: skip
    assert pair.reader.peek(b"Topic", 0, 70) is pair.reader.peek("Topic", 0, -1) is None
    assert pair.reader.peek("Missing", 0, 0) is None
    assert mapped_files(tmp_path) == set()
    assert pair.reader.entry("Topic", 0, 60) == pair.reader.peek("Topic", 0, 60)
    assert len(mapped_files(tmp_path)) == 1


def test_peek_finds_nothing_in_a_missing_or_short_file(tmp_path: Path, pair: Pair) -> None:
    pair.put(0, 70)
    pair.writer.close()
    folder = tmp_path / "consumequeue" / "Topic" / "0"
    (folder / f"{0:020}").unlink()
    (folder / f"{50 * ENTRY_SIZE:020}").write_bytes(bytes(30))
    assert pair.reader.peek("Topic", 0, 0) is pair.reader.peek("Topic", 0, 60) is None


def test_unknown_queue_is_empty(pair: Pair) -> None:
    assert pair.reader.bounds("Missing", 3) == (0, 0)
    assert pair.offsets(0, "Missing") is None


def test_entries_below_the_minimum_are_not_read(pair: Pair) -> None:
    pair.put(0, 70)
    for _ in pair.writer.clean_expired(605):
        pass
    pair.writer.publish()
    assert pair.reader.bounds("Topic", 0) == (61, 70)
    assert pair.offsets(60) is None
    assert pair.offsets(-1) is None


def test_recreated_queue_is_not_read_from_its_old_file(pair: Pair) -> None:
    pair.put(0, 3)
    assert pair.offsets(0) == [0, 10, 20]
    cursor = pair.writer.find(b"Topic", 0)
    assert cursor is not None
    pair.writer.drop(cursor)
    assert pair.offsets(0) is None
    pair.put(0, 2, start=9000)
    assert pair.offsets(0) == [9000, 9010]


def test_row_that_another_queue_took_over_is_not_read_as_this_ones(pair: Pair) -> None:
    pair.put(0, 3)
    assert pair.offsets(1) == [10, 20]
    cursor = pair.writer.find(b"Topic", 0)
    assert cursor is not None
    pair.writer.drop(cursor)
    pair.put(0, 5, b"Other", start=500)  # in the row that is free now
    assert pair.offsets(1) is None
    assert pair.offsets(1, "Other") == [510, 520, 530, 540]


def test_queue_that_changes_while_it_is_looked_for_is_not_found_in_its_old_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Published(tmp_path)
    pair.put(0, 3)
    find = pair.table.find

    def find_and_lose(topic: bytes, queue_id: int) -> int:
        row = find(topic, queue_id)
        cursor = pair.writer.find(b"Topic", 0)
        assert cursor is not None
        pair.writer.drop(cursor)
        pair.put(0, 5, b"Other", start=500)
        pair.put(0, 1, start=9000)
        return row

    monkeypatch.setattr(pair.table, "find", find_and_lose)
    assert pair.offsets(0) is None
    monkeypatch.undo()
    assert pair.offsets(0) == [9000]
    assert pair.offsets(1) is None
    pair.reader.close()
    pair.writer.close()


def test_offset_without_an_entry_makes_no_file_be_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Published(tmp_path)
    pair.put(0, 50)  # to the end of the first file
    monkeypatch.setattr("store.consume_queue.reader.MappedFile", None)
    for offset in (50, 51, -1, 1 << 62):
        assert pair.offsets(offset) is None
    monkeypatch.undo()
    assert pair.offsets(49) == [490]
    pair.reader.close()
    pair.writer.close()


def test_entries_of_more_queues_than_are_remembered_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.consume_queue.reader._PUBLISHED_MAX", 2)
    pair = Published(tmp_path)
    for number in range(5):
        pair.put(0, 2, b"Topic%d" % number, start=number * 100)
    for number in [0, 1, 2, 3, 4, 0, 2, 4, 1]:
        assert pair.offsets(0, f"Topic{number}") == [number * 100, number * 100 + 10]
    assert len(mapped_files(tmp_path)) <= 5
    pair.reader.close()
    pair.writer.close()


def test_more_queues_than_mappings_can_be_read(pair: Pair) -> None:
    for number in range(5):
        pair.put(0, 2, b"Topic%d" % number, start=number * 100)
    for number in [0, 1, 2, 3, 4, 0, 2, 4, 1]:
        assert pair.offsets(0, f"Topic{number}") == [number * 100, number * 100 + 10]


def mapped_files(root: Path) -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5].removesuffix(" (deleted)") for line in lines if str(root) in line}


def test_release_deleted_unmaps_files_that_expired_or_whose_queue_was_deleted(tmp_path: Path, pair: Pair) -> None:
    pair.put(0, 70)
    pair.put(0, 3, b"Gone")
    assert pair.offsets(0)
    assert pair.offsets(0, "Gone")
    pair.writer.close()
    files = {str(tmp_path / "consumequeue" / topic / "0" / f"{0:020}") for topic in ("Topic", "Gone")}
    assert mapped_files(tmp_path) == files
    for _ in pair.writer.clean_expired(600):
        pass
    gone = pair.writer.find(b"Gone", 0)
    assert gone is not None
    pair.writer.drop(gone)
    pair.writer.publish()
    for _ in pair.writer.sweep():
        pass
    for _ in pair.reader.release_deleted():
        pass
    assert mapped_files(tmp_path) == set()
    assert pair.offsets(60) == [*range(600, 700, 10)]


def test_release_deleted_keeps_mappings_of_existing_files(tmp_path: Path, pair: Pair) -> None:
    pair.put(0, 70)
    assert pair.offsets(60)
    pair.writer.close()
    before = mapped_files(tmp_path)
    for _ in pair.reader.release_deleted():
        pass
    assert mapped_files(tmp_path) == before
    assert len(before) == 1
