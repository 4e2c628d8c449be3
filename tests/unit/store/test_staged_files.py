"""Records that are staged reach the files when they are written: whole, in order, also across files; memory is given back; a failure is final."""

import ctypes
import mmap
import os
from array import array
from pathlib import Path
from typing import Any

import pytest

from headrace.model.host import encode_host
from store.commit_log.append import CommitLogAppender
from store.commit_log.stage import Stage
from store.commit_log.staged_files import StagedFiles
from store.config import StoreConfig
from store.mapped_file import reserve_file
from store.paths import StorePaths, file_name
from support.hot_sends import LogInMemory

FILE_SIZE = 1 << 20
FILES = 4
HOST = encode_host(("127.0.0.1", 10911))


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    paths = StorePaths(tmp_path)
    paths.make_directories()
    for start in range(0, FILES * FILE_SIZE, FILE_SIZE):
        reserve_file(paths.commit_log / file_name(start), FILE_SIZE)
    return paths


def staged(paths: StorePaths) -> StagedFiles:
    return StagedFiles(paths, StoreConfig(store_path_root_dir=str(paths.root), mapped_file_size_commit_log=FILE_SIZE))


def stage_of(paths: StorePaths) -> Stage:
    stage = staged(paths).stage
    assert stage is not None
    return stage


def on_disk(paths: StorePaths) -> bytes:
    names = [file_name(start) for start in range(0, FILES * FILE_SIZE, FILE_SIZE)]
    return b"".join((paths.commit_log / name).read_bytes() for name in names)


def resident_kib(view: memoryview) -> int:
    """How much memory the mapping of a view takes."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(view))
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        begin, dash, end = line.split(maxsplit=1)[0].partition("-")
        if dash and int(begin, 16) <= address < int(end, 16):
            return next(int(found.split()[1]) for found in lines if found.startswith("Rss:"))
    raise AssertionError("the view is in no mapping")


def test_each_batch_begins_at_the_first_byte(paths: StorePaths) -> None:
    stage = stage_of(paths)
    stage.begin(5000)
    assert not any(on_disk(paths))
    data = os.urandom(30_000)
    written = 0
    for length in (1, 4096, 0, 700, 25_203):
        stage.view[:length] = data[written : written + length]
        written += length
        stage.write(5000 + written)
    assert on_disk(paths) == bytes(5000) + data + bytes(FILES * FILE_SIZE - 35_000)


def appender(files: StagedFiles, wrote_offset: int, log: Any) -> CommitLogAppender:
    words = memoryview(array("q", [FILES * FILE_SIZE]))
    return CommitLogAppender(log, files.open, words, 0, FILE_SIZE, wrote_offset, wrote_offset, files.populate, stage=files.stage)  # fmt: skip


@pytest.mark.parametrize("wrote_offset", [0, 5000, FILE_SIZE - 90, FILE_SIZE, FILE_SIZE + 4097])
@pytest.mark.parametrize("batch", [1, 7, 300, 10_000])
def test_files_are_those_of_an_appender_that_stores_into_memory(
    wrote_offset: int, batch: int, paths: StorePaths
) -> None:
    expected = bytearray(FILES * FILE_SIZE)
    words = memoryview(array("q", [FILES * FILE_SIZE]))
    published: Any = LogInMemory()
    in_memory = CommitLogAppender(
        published, lambda start: memoryview(expected)[start : start + FILE_SIZE], words, 0, FILE_SIZE, wrote_offset, wrote_offset
    )  # fmt: skip
    files = staged(paths)
    log = appender(files, wrote_offset, LogInMemory())
    bodies = [os.urandom(size * size) for size in range(20, 50)]
    number = 0
    while log.wrote_offset < 3 * FILE_SIZE:
        body = bodies[number % len(bodies)]
        for one in (log, in_memory):
            one.begin(1000 + number)
            one.append(one.queues_of(b"T"), number % 3, 0, 0, 0, HOST, HOST, 0, 0, body, 0, b"p", True)
        number += 1
        if not number % batch:
            log.publish()
            assert log.wrote_offset == in_memory.wrote_offset
            if not number % 300:
                assert on_disk(paths)[: log.wrote_offset] == expected[: log.wrote_offset]
    log.publish()
    assert on_disk(paths) == expected


def test_memory_of_a_large_batch_is_given_back(paths: StorePaths) -> None:
    stage = stage_of(paths)
    data = os.urandom(FILE_SIZE)
    stage.view[:] = data
    before = resident_kib(stage.view)
    stage.write(FILE_SIZE)
    assert before - resident_kib(stage.view) == 512
    assert on_disk(paths)[:FILE_SIZE] == data


def test_small_batches_use_the_same_memory(paths: StorePaths) -> None:
    stage = stage_of(paths)
    before = resident_kib(stage.view)
    for end in range(10_000, FILE_SIZE, 10_000):
        stage.view[:10_000] = os.urandom(10_000)
        stage.write(end)
    assert resident_kib(stage.view) - before <= 12


def test_zeros_are_written_ahead_and_records_over_them(paths: StorePaths) -> None:
    files = staged(paths)
    view = files.open(0)
    view[:3000] = data = os.urandom(3000)
    files.populate(3000, 1 << 18)
    assert files.stage is not None
    files.stage.write(3000)
    assert on_disk(paths) == data + bytes(FILES * FILE_SIZE - 3000)
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
    assert files.stage is None
    assert files.failure == ""
    monkeypatch.undo()
    log = appender(files, 0, LogInMemory())
    data = os.urandom(5000)
    log.append(log.queues_of(b"T"), 0, 0, 0, 0, HOST, HOST, 0, 0, data, 0, b"", True)
    assert data in on_disk(paths)
    assert "records are stored into mapped files error='[Errno 12] Cannot allocate memory'" in caplog.text


def test_a_short_write_is_continued(paths: StorePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, data[:700], at))
    stage = stage_of(paths)
    stage.view[:5000] = data = os.urandom(5000)
    stage.write(5000)
    assert on_disk(paths)[:5000] == data


def failing_pwrite(*_: Any) -> int:
    raise OSError(5, "Input/output error")


def test_a_failed_write_is_final(
    paths: StorePaths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = staged(paths)
    stage = files.stage
    assert stage is not None
    stage.view[:5000] = os.urandom(5000)
    with monkeypatch.context() as failing:
        failing.setattr(os, "pwrite", failing_pwrite)
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                stage.write(5000)
    assert files.failure == "the CommitLog cannot be written: [Errno 5] Input/output error"
    assert caplog.text.count("CommitLog write failed") == 1
    with pytest.raises(OSError, match="cannot be written"):
        stage.write(5000)
    assert not any(on_disk(paths))


def test_a_file_whose_end_cannot_be_written_gets_no_successor(
    paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, published = staged(paths), LogInMemory()
    log = appender(files, 0, published)
    queues = log.queues_of(b"T")

    def append(size: int) -> int:
        return log.append(queues, 0, 0, 0, 0, HOST, HOST, 0, 0, bytes(size), 0, b"", True)

    assert append(FILE_SIZE - 5000) == 0
    monkeypatch.setattr(os, "pwrite", failing_pwrite)
    assert append(10_000) < 0
    assert append(10_000) < 0
    with pytest.raises(OSError, match="cannot be written"):
        log.publish()
    monkeypatch.undo()
    with pytest.raises(OSError, match="cannot be written"):
        log.publish()
    assert published.published == 0
