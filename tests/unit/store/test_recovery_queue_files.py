"""QueueFiles: the end of a queue's entries, and how much is read to find it."""

import os
from pathlib import Path

import pytest

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE, FILLER_SIZE
from store.paths import file_name
from store.recovery.queue_bounds import KeptQueue
from store.recovery.queue_files import QueueFiles

IN_FILE = 30_000


def make_queue(directory: Path, count: int) -> QueueFiles:
    entries = b"".join(ENTRY.pack(100 * number, 100, 0) for number in range(count))
    for number in range(-(-count // IN_FILE)):
        path = directory / file_name(number * IN_FILE * ENTRY_SIZE)
        path.write_bytes(entries[number * IN_FILE * ENTRY_SIZE : (number + 1) * IN_FILE * ENTRY_SIZE])
        os.truncate(path, IN_FILE * ENTRY_SIZE)
    return QueueFiles(str(directory), b"Topic", 0, IN_FILE * ENTRY_SIZE)


@pytest.mark.parametrize("count", [1, 2, 199, 200, 201, 202, 400, 401, 1000, 29_999, 30_000, 30_001])
def test_tail_ends_behind_the_last_entry(count: int, tmp_path: Path) -> None:
    queue = make_queue(tmp_path, count)
    tail = queue.find_tail(None)
    assert (tail.next_offset, tail.max_physical_offset) == (count, 100 * count)
    assert queue.find_tail(100 * count - 1).next_offset == count - 1
    queue.close()


def test_one_read_finds_the_tail_of_a_short_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = make_queue(tmp_path, 50)
    reads: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: reads.append(size) or pread(fd, size, at))
    queue.find_tail(None)
    assert queue.has_nothing_from(50)
    assert reads == [4096]
    queue.close()


@pytest.mark.parametrize("count", [1, 203, 204, 205, 29_999, 30_000, 30_001])
def test_only_the_end_of_the_entries_has_nothing_behind(count: int, tmp_path: Path) -> None:
    queue = make_queue(tmp_path, count)
    assert queue.has_nothing_from(count)
    if count != 30_001:  # there a file begins, which truncating deletes
        assert not queue.has_nothing_from(count - 1)
    queue.close()


@pytest.mark.parametrize("position", [51 * ENTRY_SIZE - 1, 4095, 4096, IN_FILE * ENTRY_SIZE - 1])
def test_a_byte_behind_the_entries_is_found(position: int, tmp_path: Path) -> None:
    queue = make_queue(tmp_path, 50)
    with (tmp_path / file_name(0)).open("r+b") as file:
        file.seek(position)
        file.write(b"x")
    assert not queue.has_nothing_from(50)
    queue.close()


def test_a_file_behind_the_entries_is_found(tmp_path: Path) -> None:
    queue = make_queue(tmp_path, IN_FILE)
    assert queue.has_nothing_from(IN_FILE)
    for start in (1, 2):
        (tmp_path / file_name(start * IN_FILE * ENTRY_SIZE)).write_bytes(bytes(IN_FILE * ENTRY_SIZE))
        longer = QueueFiles(str(tmp_path), b"Topic", 0, IN_FILE * ENTRY_SIZE)
        assert not longer.has_nothing_from(IN_FILE)
        (tmp_path / file_name(start * IN_FILE * ENTRY_SIZE)).unlink()
    queue.close()


def test_last_entry_is_dispatched_again_if_its_record_is() -> None:
    kept = KeptQueue(b"T", 1, min_offset=0, next_offset=2, last=(100, 50), previous=(0, 100))
    assert kept.bounds(150) == (b"T", 1, 0, 2, 150)
    assert kept.bounds(149) == (b"T", 1, 0, 1, 100)
    assert kept._replace(min_offset=1).bounds(149) is None
    assert kept._replace(previous=None).bounds(149) is None
    assert kept._replace(previous=(0, FILLER_SIZE)).bounds(149) is None
