"""IndexWriter and IndexReader: what is put is found, over rolls, restarts, kills in the middle of a key, and deletion."""

import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from headrace.model.java_hash import string_hash
from store import fault_point
from store.config import StoreConfig
from store.index import reader
from store.index.layout import HEADER, SLOT_COUNT, entry_position, file_size, fold_hash, slot_position
from store.index.reader import IndexReader, list_names, read_header
from store.index.writer import IndexWriter, format_name, parse_name
from store.paths import StorePaths

SLOTS, ENTRIES = 7, 10
CONFIG = StoreConfig(max_hash_slot_num=SLOTS, max_index_num=ENTRIES)
BEGIN = 1_700_000_000_000
EVER = 1 << 62

KILLS = [
    "index.entry_written",
    "index.end_offset_written",
    "index.end_written",
    "index.count_written",
    "index.header_written",
]


class Index:
    """A writer and a reader of one directory."""

    def __init__(self, root: Path) -> None:
        self.paths = StorePaths(root)
        self.paths.make_directories()
        self.writer = IndexWriter(self.paths, CONFIG)
        self.writer.open_last()
        self.reader = IndexReader(self.paths, CONFIG)

    def put(self, key: str, physical_offset: int, timestamp: int = BEGIN) -> None:
        key_hash = fold_hash(string_hash(f"Topic#{key}"))
        cursor = self.writer.with_room()
        cursor.put(key_hash, physical_offset, timestamp)
        cursor.settle()

    def put_again(self, keys: list[str], physical_offset: int, timestamp: int = BEGIN) -> None:
        """As dispatch does when it comes past a record: the keys that are there are skipped."""
        cursor = self.writer.with_room()
        if physical_offset < cursor.end_physical_offset:
            return
        present = self.writer.present_keys(physical_offset) if physical_offset == cursor.end_physical_offset else 0
        for key in keys[present:]:
            self.put(key, physical_offset, timestamp)

    def restart(self) -> None:
        self.writer.close()
        self.writer = IndexWriter(self.paths, CONFIG)
        self.writer.open_last()

    def find(self, key: str, begin: int = 0, end: int = EVER) -> list[int]:
        self.reader.refresh()
        return list(self.reader.find("Topic", key, begin, end))

    def files(self) -> list[bytes]:
        return [(self.paths.index / name).read_bytes() for name in list_names(self.paths.index)]

    def close(self) -> None:
        self.writer.close()
        self.reader.close()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    found = Index(tmp_path)
    yield found
    found.close()


def test_every_key_is_found_across_files_newest_first(index: Index) -> None:
    for number in range(40):
        index.put(f"key-{number % 5}", number * 100, BEGIN + number * 10)
    assert len(index.files()) == 5  # nine places each
    for key in range(5):
        assert index.find(f"key-{key}") == [number * 100 for number in reversed(range(key, 40, 5))]
    assert index.find("other") == []


def test_only_entries_in_the_time_range_are_found(index: Index) -> None:
    for number in range(8):
        index.put("key", number * 100, BEGIN + number * 1000)
    assert index.find("key", BEGIN + 2000, BEGIN + 4000) == [400, 300, 200]
    assert index.find("key", 0, BEGIN - 1) == []


def test_chain_that_leads_in_a_circle_in_a_damaged_file_ends(index: Index) -> None:
    for number in range(4):
        index.put("key", number * 100)
    path = index.paths.index / list_names(index.paths.index)[0]
    with path.open("r+b") as file:
        file.seek(entry_position(SLOTS, 2) + 16)
        file.write((4).to_bytes(4, "big"))  # the second entry's predecessor: the newest one
    assert index.find("key") == [300, 200, 100]


def overwrite(index: Index, position: int, data: bytes) -> None:
    with (index.paths.index / list_names(index.paths.index)[0]).open("r+b") as file:
        file.seek(position)
        file.write(data)


def test_keys_that_are_put_during_a_search_hide_none(index: Index) -> None:
    """A search that reads the count of entries before a writer goes on, and the slot afterwards, sees these numbers."""
    for number in range(6):
        index.put("key", number * 100)
    overwrite(index, SLOT_COUNT + 4, (3).to_bytes(4, "big"))
    assert index.find("key") == [500, 400, 300, 200, 100, 0]


@pytest.mark.parametrize(
    ("position", "data", "found"),
    [
        (entry_position(SLOTS, 3) + 12, b"\xff\xff\xff\xff", [300]),  # seconds
        (entry_position(SLOTS, 3) + 16, b"\xff\xff\xff\xff", [300, 200]),  # predecessor
        (entry_position(SLOTS, 3) + 16, b"\x7f\xff\xff\xff", [300, 200]),
        (entry_position(SLOTS, 3) + 4, b"\xff" * 8, [300, 100, 0]),  # physical offset
        (0, b"\x7f" * 8, []),  # begin timestamp
        (0, b"\xff" * 8, []),
        (slot_position(fold_hash(string_hash("Topic#key")) % SLOTS), ENTRIES.to_bytes(4, "big"), []),
        (slot_position(fold_hash(string_hash("Topic#key")) % SLOTS), b"\x7f\xff\xff\xff", []),
        (slot_position(fold_hash(string_hash("Topic#key")) % SLOTS), b"\xff\xff\xff\xff", []),
    ],
)
def test_damaged_number_in_a_file_ends_the_search_or_is_skipped(
    index: Index, position: int, data: bytes, found: list[int]
) -> None:
    for number in range(4):
        index.put("key", number * 100)
    overwrite(index, position, data)
    assert index.find("key") == found


def test_search_goes_on_in_a_file_that_is_closed_meanwhile(index: Index) -> None:
    for number in range(4):
        index.put("key", number * 100)
    index.reader.refresh()
    search = index.reader.find("Topic", "key", 0, EVER)
    assert next(search) == 300
    index.reader.close()
    assert list(search) == [200, 100, 0]


def test_last_update_is_the_end_of_the_newest_file(index: Index) -> None:
    assert index.reader.last_update() == (0, 0)
    for number in range(12):
        index.put("key", number * 100, BEGIN + number)
    index.reader.refresh()
    assert index.reader.last_update() == (BEGIN + 11, 1100)


def test_first_time_of_a_new_file_is_relative_to_the_end_of_the_previous_one(index: Index) -> None:
    for number in range(9):
        index.put(f"{number}", number * 100, BEGIN)
    index.put("late", 1000, BEGIN + 10_999)
    index.put("later", 2000, BEGIN + 12_999)
    second = index.files()[1]
    assert HEADER.unpack(second[:40]) == (BEGIN + 10_999, BEGIN + 12_999, 1000, 2000, 2, 3)
    seconds = [int.from_bytes(second[entry_position(SLOTS, n) + 12 :][:4], "big") for n in (1, 2)]
    assert seconds == [10, 2]


def test_empty_new_file_begins_with_the_end_of_the_previous_one(index: Index) -> None:
    for number in range(9):
        index.put(f"{number}", number * 100, BEGIN + number)
    index.writer.with_room()
    assert index.files()[1] == HEADER.pack(BEGIN + 8, BEGIN + 8, 800, 800, 0, 0).ljust(file_size(SLOTS, ENTRIES), b"\0")
    assert index.writer.completed_timestamp == BEGIN + 8
    index.restart()
    index.put("next", 900, BEGIN + 20)
    assert index.find("next") == [900]


def test_hash_of_minus_two_to_the_31_is_stored_as_0(index: Index) -> None:
    assert fold_hash(string_hash("polygenelubricants")) == 0
    assert fold_hash(-5) == 5
    cursor = index.writer.with_room()
    cursor.put(0, 100, BEGIN)
    cursor.settle()
    assert (cursor.count, cursor.slots_used) == (2, 1)


def test_restarted_writer_continues_in_the_newest_file(index: Index) -> None:
    index.put("one", 100)
    index.restart()
    index.put("two", 200)
    assert len(index.files()) == 1
    assert (index.find("one"), index.find("two")) == ([100], [200])


def test_record_dispatched_again_gets_only_the_keys_it_lacks(index: Index) -> None:
    keys = ["a", "b", "c"]
    index.put("a", 100)
    index.put("b", 100)
    index.restart()
    index.put_again(keys, 100)
    assert [index.find(key) for key in keys] == [[100]] * 3
    index.put_again(keys, 100)
    assert [index.find(key) for key in keys] == [[100]] * 3


def test_missing_keys_are_counted_across_two_files(index: Index) -> None:
    for number in range(8):
        index.put(f"{number}", number)
    index.put("a", 100)  # fills the file
    index.put("b", 100)
    index.restart()
    index.put_again(["a", "b", "c"], 100)
    assert [index.find(key) for key in "abc"] == [[100]] * 3
    assert len(index.files()) == 2


def _put_in_a_child_killed_at(index: Index, place: str, keys: list[str], physical_offset: int) -> None:
    child = os.fork()
    if child == 0:
        os.environ[fault_point.ENVIRONMENT] = place
        fault_point.arm(place)
        index.restart()
        index.put_again(keys, physical_offset, BEGIN + 5000)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


@pytest.mark.parametrize("before", [0, 1, 4, 9])
@pytest.mark.parametrize("passes", [1, 2, 3])
@pytest.mark.parametrize("place", [*KILLS, "index.file_made", "index.file_begun"])
def test_restart_after_a_kill_within_a_key_leaves_the_same_bytes(
    tmp_path: Path, place: str, passes: int, before: int
) -> None:
    if place.startswith("index.file") and (passes > 1 or before not in (0, 9)):
        return  # a file is made once here
    keys = ["a", "b", "a-second", "c"]
    killed, whole = Index(tmp_path / "killed"), Index(tmp_path / "whole")
    for index in (killed, whole):
        for number in range(before):
            index.put(f"{number % 3}", number * 10)
        index.writer.close()
    _put_in_a_child_killed_at(killed, f"{place}:{passes}", keys, 500)
    for index in (killed, whole):
        index.restart()
        index.put_again(keys, 500, BEGIN + 5000)
        index.put_again(["d"], 600, BEGIN + 9000)
    assert killed.files() == whole.files()
    assert [killed.find(key) for key in keys] == [[500]] * 4
    killed.close()
    whole.close()


def test_files_below_the_minimum_of_the_log_are_deleted_except_the_newest(index: Index) -> None:
    for number in range(30):
        index.put("key", number * 100)
    assert sum(1 for _ in index.writer.clean_expired(1650)) == 1
    assert len(index.files()) == 3
    assert min(index.find("key")) == 900
    assert sum(1 for _ in index.writer.clean_expired(1 << 40)) == 2
    assert len(index.files()) == 1


def test_file_of_another_length_is_left_unchanged(index: Index) -> None:
    name = "20200101000000000"
    (index.paths.index / name).write_bytes(b"other settings made me")
    index.restart()
    index.put("key", 100)
    assert index.find("key") == [100]
    assert (index.paths.index / name).read_bytes() == b"other settings made me"


def test_other_files_in_the_index_folder_are_ignored(index: Index) -> None:
    (index.paths.index / "notes.txt").write_text("not mine")
    index.put("key", 100)
    index.restart()
    assert index.find("key") == [100]


def test_directory_is_read_again_only_after_a_change(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[Path] = []

    def count(directory: Path) -> list[str]:
        listed.append(directory)
        return list_names(directory)

    monkeypatch.setattr(reader, "list_names", count)
    for number in range(5):
        index.put(f"K{number}", 100 + number)
    os.utime(index.paths.index, ns=(1, time.time_ns() - (2 << 30)))
    for _ in range(9):
        assert index.find("K3") == [103]
    assert len(listed) == 1
    for number in range(5, 30):  # another file after every 9
        index.put(f"K{number}", 100 + number)
        assert index.find(f"K{number}") == [100 + number]
    assert len(list_names(index.paths.index)) > 2


def test_file_that_came_in_the_same_tick_of_the_clock_is_found(index: Index) -> None:
    index.put("K0", 100)
    now = time.time_ns()
    os.utime(index.paths.index, ns=(now, now))
    assert index.find("K0") == [100]
    for number in range(1, 15):
        index.put(f"K{number}", 100 + number)
    os.utime(index.paths.index, ns=(now, now))
    assert index.find("K14") == [114]


def test_file_name_is_the_local_time_and_unique(index: Index) -> None:
    assert format_name(datetime(2024, 2, 29, 23, 59, 58, 7999)) == "20240229235958007"  # noqa: DTZ001
    for number in range(100):
        index.put("key", number)
    names = list_names(index.paths.index)
    assert len(names) == 12
    assert names == sorted(set(names))


def test_clock_set_back_does_not_change_the_order(index: Index) -> None:
    future = "20991231235959999"
    (index.paths.index / future).write_bytes(bytes(file_size(SLOTS, ENTRIES)))
    index.restart()
    for number in range(10):
        index.put("key", number)
    names = list_names(index.paths.index)
    assert names == [future, "21000101000000000"]
    assert parse_name(names[1]) > parse_name(names[0])


def test_empty_header_counts_from_1() -> None:
    assert read_header(bytes(40)).next_number == 1


@pytest.mark.parametrize("count", [-1, -(1 << 31), ENTRIES + 1, (1 << 31) - 1])
def test_file_with_an_invalid_count_is_left_unchanged_and_a_new_one_begun(tmp_path: Path, count: int) -> None:
    index = Index(tmp_path)
    index.put("a", 100)
    (name,) = list_names(index.paths.index)
    index.close()
    path = index.paths.index / name
    data = bytearray(path.read_bytes())
    data[HEADER.size - 4 : HEADER.size] = count.to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    index = Index(tmp_path)
    index.put("b", 200)
    assert len(list_names(index.paths.index)) == 2
    assert path.read_bytes() == data
    index.close()
