"""Records that are staged reach the files when they are written: whole, in order, also across files; memory is given back; a failure is final."""

import ctypes
import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from store.commit_log.staged_files import StagedFiles
from store.config import StoreConfig
from store.mapped_file import reserve_file
from store.paths import StorePaths, file_name

FILE_SIZE = 1 << 20
PAGE = os.sysconf("SC_PAGESIZE")


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    paths = StorePaths(tmp_path)
    paths.make_directories()
    for start in range(0, 4 * FILE_SIZE, FILE_SIZE):
        reserve_file(paths.commit_log / file_name(start), FILE_SIZE)
    return paths


def staged(paths: StorePaths, wrote_offset: int = 0) -> StagedFiles:
    config = StoreConfig(store_path_root_dir=str(paths.root), mapped_file_size_commit_log=FILE_SIZE)
    return StagedFiles(paths, config, wrote_offset)


def on_disk(paths: StorePaths) -> bytes:
    return b"".join((paths.commit_log / file_name(start)).read_bytes() for start in range(0, 4 * FILE_SIZE, FILE_SIZE))


def resident_kib(view: memoryview) -> int:
    """How much memory the mapping of a view takes."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(view))
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        begin, dash, end = line.split(maxsplit=1)[0].partition("-")
        if dash and int(begin, 16) <= address < int(end, 16):
            return next(int(found.split()[1]) for found in lines if found.startswith("Rss:"))
    raise AssertionError("the view is in no mapping")


def test_nothing_is_in_the_file_before_it_is_written(paths: StorePaths) -> None:
    files = staged(paths)
    view = files.open(0)
    view[:5000] = data = os.urandom(5000)
    assert not any(on_disk(paths))
    files.write(3000)
    assert on_disk(paths)[:5000] == data[:3000] + bytes(2000)
    files.write(5000)
    assert on_disk(paths)[:5000] == data


@pytest.mark.parametrize("wrote_offset", [0, 5000, FILE_SIZE - 3, FILE_SIZE, FILE_SIZE + 4097])
def test_records_go_on_in_the_next_files(wrote_offset: int, paths: StorePaths) -> None:
    files = staged(paths, wrote_offset)
    data = os.urandom(4 * FILE_SIZE)
    first = wrote_offset - wrote_offset % FILE_SIZE
    views = {start: files.open(start) for start in range(first, 4 * FILE_SIZE, FILE_SIZE)}
    for start, view in views.items():
        view[:] = data[start : start + FILE_SIZE]
    end = 4 * FILE_SIZE - 7
    files.write(end)
    assert on_disk(paths) == bytes(wrote_offset) + data[wrote_offset:end] + bytes(7)


def test_pages_that_are_written_are_given_back(paths: StorePaths) -> None:
    files = staged(paths, 100)
    view = files.open(0)
    data = os.urandom(FILE_SIZE)
    most = 0
    for end in range(10_000, FILE_SIZE, 10_000):
        view[end - 10_000 : end] = data[end - 10_000 : end]
        files.write(end)
        most = max(most, resident_kib(view))
    assert 0 < most <= 300
    assert on_disk(paths)[100:end] == data[100:end]


def test_zeros_are_written_ahead_and_records_over_them(paths: StorePaths) -> None:
    files = staged(paths)
    view = files.open(0)
    view[:3000] = data = os.urandom(3000)
    files.populate(3000, 1 << 18)
    files.write(3000)
    assert on_disk(paths) == data + bytes(4 * FILE_SIZE - 3000)
    assert (paths.commit_log / file_name(0)).stat().st_size == FILE_SIZE


def test_without_memory_for_a_stage_records_are_stored_into_the_file(
    paths: StorePaths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(mmap.mmap):
        def __new__(cls, fileno: int, *arguments: Any, **options: Any) -> "Refusing":
            if fileno < 0:
                raise OSError(12, "Cannot allocate memory")
            return super().__new__(cls, fileno, *arguments, **options)

    monkeypatch.setattr(mmap, "mmap", Refusing)
    files = staged(paths)
    first = files.open(0)
    monkeypatch.undo()
    data = os.urandom(2 * FILE_SIZE)
    files.populate(0, 1 << 18)
    first[:] = data[:FILE_SIZE]
    files.write(5000)
    second = files.open(FILE_SIZE)
    second[:] = data[FILE_SIZE:]
    files.write(FILE_SIZE + 5000)
    assert on_disk(paths)[: FILE_SIZE + 5000] == data[: FILE_SIZE + 5000]
    assert not any(on_disk(paths)[FILE_SIZE + 5000 :])
    assert "stored into the mapped file start=0" in caplog.text


def test_a_short_write_is_continued(paths: StorePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, data[:700], at))
    files = staged(paths)
    view = files.open(0)
    view[:5000] = data = os.urandom(5000)
    files.write(5000)
    assert on_disk(paths)[:5000] == data


def test_a_failed_write_is_final(
    paths: StorePaths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = staged(paths)
    view = files.open(0)
    view[:5000] = os.urandom(5000)
    with monkeypatch.context() as failing:
        failing.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                files.write(5000)
    assert files.failure == "the CommitLog cannot be written: [Errno 5] Input/output error"
    assert caplog.text.count("CommitLog write failed") == 1
    with pytest.raises(OSError, match="cannot be written"):
        files.write(5000)
    assert not any(on_disk(paths))
