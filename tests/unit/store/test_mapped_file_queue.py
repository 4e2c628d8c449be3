from pathlib import Path

import pytest

from store.errors import UnexpectedFile, WrongFileLength
from store.mapped_file import path_of
from store.mapped_file_queue import MappedFileQueue

SIZE = 4096


def make(directory: Path, *starts: int) -> MappedFileQueue:
    for start in starts:
        path_of(directory, start).write_bytes(start.to_bytes(8, "big") * (SIZE // 8))
    queue = MappedFileQueue(directory, SIZE, size_option="mappedFileSizeCommitLog")
    queue.refresh()
    return queue


def test_missing_directory_is_an_empty_queue(tmp_path: Path) -> None:
    queue = MappedFileQueue(tmp_path / "none", SIZE)
    queue.refresh()
    assert (queue.first_offset, queue.end_offset, queue.names()) == (0, 0, [])
    assert queue.file_for(0) is None


def test_files_are_listed_in_order(tmp_path: Path) -> None:
    queue = make(tmp_path, 8192, 4096, 12288)
    assert queue.names() == ["00000000000000004096", "00000000000000008192", "00000000000000012288"]
    assert (queue.first_offset, queue.end_offset) == (4096, 16384)


@pytest.mark.parametrize(("offset", "start"), [(4096, 4096), (8191, 4096), (8192, 8192), (12287, 8192)])
def test_offset_is_found_in_its_file(tmp_path: Path, offset: int, start: int) -> None:
    file = make(tmp_path, 4096, 8192).file_for(offset)
    assert file is not None
    assert (file.start_offset, file.end_offset) == (start, start + SIZE)
    assert bytes(file.view[:8]) == start.to_bytes(8, "big")


@pytest.mark.parametrize("offset", [-1, 0, 4095, 12288])
def test_offset_outside_has_no_file(tmp_path: Path, offset: int) -> None:
    assert make(tmp_path, 4096, 8192).file_for(offset) is None


def test_new_file_is_found_without_listing_the_directory_again(tmp_path: Path) -> None:
    queue = make(tmp_path, 0)
    assert queue.file_for(4096) is None
    path_of(tmp_path, 4096).write_bytes(bytes(SIZE))
    assert queue.file_for(4096) is not None


def test_least_recently_used_mappings_are_released_first(tmp_path: Path) -> None:
    queue = make(tmp_path, 0, 4096, 8192)
    queue = MappedFileQueue(tmp_path, SIZE, max_open=2)
    first, second = queue.file_for(0), queue.file_for(4096)
    queue.file_for(0)
    queue.file_for(8192)
    assert queue.file_for(0) is first
    assert queue.file_for(4096) is not second


def test_forgotten_files_are_closed_and_not_listed(tmp_path: Path) -> None:
    queue = make(tmp_path, 0, 4096)
    file = queue.file_for(0)
    assert file is not None
    queue.forget_before(4096)
    assert file.fd == -1
    assert queue.names() == ["00000000000000004096"]


def test_file_of_another_length_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    make(tmp_path, 0)
    path_of(tmp_path, 4096).write_bytes(bytes(100))
    with pytest.raises(WrongFileLength, match="00000000000000004096 has 100 bytes, but mappedFileSizeCommitLog=4096"):
        make(tmp_path)
    assert sorted(path.stat().st_size for path in tmp_path.iterdir()) == [100, SIZE]


@pytest.mark.parametrize("name", ["notes.txt", "4096", "0000000000000000409x", "00000000000000004097"])
def test_unexpected_file_in_the_directory_is_refused_by_name(tmp_path: Path, name: str) -> None:
    make(tmp_path, 0)
    (tmp_path / name).write_bytes(bytes(SIZE))
    with pytest.raises(UnexpectedFile, match=name):
        make(tmp_path)


def test_gap_is_refused_and_the_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnexpectedFile, match=r"00000000000000008192 does not follow .*restore 00000000000000004096,"):
        make(tmp_path, 0, 8192)
