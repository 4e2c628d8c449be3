"""QueueFiles: the end of a queue's entries, and how much is read to find it."""

import os
from pathlib import Path

import pytest

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from store.paths import file_name
from store.recovery.queue_files import QueueFiles

IN_FILE = 30_000


def make_queue(directory: Path, count: int) -> QueueFiles:
    entries = b"".join(ENTRY.pack(100 * number, 100, 0) for number in range(count))
    for number in range(-(-count // IN_FILE)):
        path = directory / file_name(number * IN_FILE * ENTRY_SIZE)
        path.write_bytes(entries[number * IN_FILE * ENTRY_SIZE : (number + 1) * IN_FILE * ENTRY_SIZE])
        os.truncate(path, IN_FILE * ENTRY_SIZE)
    return QueueFiles(directory, b"Topic", 0, IN_FILE * ENTRY_SIZE)


@pytest.mark.parametrize("count", [1, 2, 199, 200, 201, 202, 400, 401, 1000, 29_999, 30_000, 30_001])
def test_tail_ends_behind_the_last_entry(count: int, tmp_path: Path) -> None:
    queue = make_queue(tmp_path, count)
    tail = queue.find_tail(None)
    assert (tail.next_offset, tail.max_physical_offset) == (count, 100 * count)
    assert queue.find_tail(100 * count - 1).next_offset == count - 1
    queue.close()


def test_few_reads_find_the_tail_of_a_short_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = make_queue(tmp_path, 50)
    reads: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: reads.append(size) or pread(fd, size, at))
    queue.find_tail(None)
    assert len(reads) == 2
    assert sum(reads) < 3 * 4096
    queue.close()
