"""QueueEntries: whatever the blocks in which files are read, an entry is what its file has at its place."""

import random
from pathlib import Path

import pytest

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from store.inspect.files import list_files
from store.inspect.queue_entries import QueueEntries
from store.paths import file_name

NOTHING = (0, 0, 0)


def write_files(folder: Path, sizes: list[int], start: int, chance: random.Random) -> list[bytes]:
    """Files that follow one another as if all were as long as the first one."""
    contents = [chance.randbytes(size) for size in sizes]
    for number, content in enumerate(contents):
        (folder / file_name(start + number * sizes[0])).write_bytes(content)
    return contents


def expected(contents: list[bytes], start: int, queue_offset: int) -> tuple[int, int, int]:
    index, at = divmod(queue_offset * ENTRY_SIZE - start, len(contents[0]))
    if index >= len(contents) or at + ENTRY_SIZE > len(contents[index]):
        return NOTHING
    return ENTRY.unpack_from(contents[index], at)


@pytest.mark.parametrize("seed", range(60))
def test_entry_is_what_its_file_has_at_its_place(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    size = chance.choice((ENTRY_SIZE, 7 * ENTRY_SIZE, 40 * ENTRY_SIZE, 7 * ENTRY_SIZE + 3))
    sizes = [size, *(chance.choice((size, size, 0, size - 1, size + 9, 3 * size)) for _ in range(chance.randrange(4)))]
    start = chance.choice((0, 0, 10 * size, 33))
    contents = write_files(tmp_path, sizes, start, chance)
    entries = QueueEntries(list_files(tmp_path), chance.choice((1, 2, 5, 7, 100)) * ENTRY_SIZE)
    entries.end = entries.capacity_end
    places = range(entries.first, entries.capacity_end)
    for queue_offset in [*places, *(chance.choice(places) for _ in range(100))]:
        assert entries.read(queue_offset)
        read = (entries.physical_offset, entries.size, entries.tags_code)
        assert read == expected(contents, start, queue_offset), queue_offset
    assert not entries.read(entries.first - 1)
    assert not entries.read(entries.capacity_end)


@pytest.mark.parametrize("block_entries", [1, 2, 3, 100])
def test_end_is_the_first_empty_entry_wherever_blocks_end(block_entries: int, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / file_name(number * 4 * ENTRY_SIZE)).write_bytes(ENTRY.pack(100, 5, 0) * 4)
    files = list_files(tmp_path)
    assert QueueEntries(files, block_entries * ENTRY_SIZE).find_end() == 8
    (tmp_path / file_name(4 * ENTRY_SIZE)).write_bytes(ENTRY.pack(100, 5, 0) + bytes(3 * ENTRY_SIZE))
    assert QueueEntries(files, block_entries * ENTRY_SIZE).find_end() == 5


def test_entries_of_a_deleted_file_are_not_there(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / file_name(number * 2 * ENTRY_SIZE)).write_bytes(ENTRY.pack(100 + number, 5, 0) * 2)
    entries = QueueEntries(list_files(tmp_path), ENTRY_SIZE)
    entries.end = 6
    (tmp_path / file_name(2 * ENTRY_SIZE)).unlink()
    assert [entries.read(number) for number in range(6)] == [True, True, False, False, True, True]
    assert entries.physical_offset == 102
    assert not entries.read(3)
    assert (entries.physical_offset, entries.size, entries.tags_code) == NOTHING
    assert entries.count_kept(0) == 4
