"""Memory that the log writer populates holds zeros, and records below it stay as they are."""

import os
from pathlib import Path

import pytest

from store.commit_log.appended_files import AppendedFiles
from store.config import StoreConfig
from store.mapped_file import reserve_file
from store.paths import StorePaths, file_name

FILE_SIZE = 1 << 20
STEP = 1 << 18
"""What the appender populates at once."""


@pytest.fixture
def files(tmp_path: Path) -> AppendedFiles:
    paths = StorePaths(tmp_path)
    paths.make_directories()
    for start in (0, FILE_SIZE):
        reserve_file(paths.commit_log / file_name(start), FILE_SIZE)
    return AppendedFiles(paths, StoreConfig(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=FILE_SIZE))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, 1),
        (5001, 5002),
        (5001, 3 << 18),
        (4096, 1 << 18),
        (FILE_SIZE - 3, FILE_SIZE),
        (FILE_SIZE + 7, 2 * FILE_SIZE),
    ],
)
def test_records_below_populated_memory_stay(start: int, end: int, files: AppendedFiles) -> None:
    first = start - start % FILE_SIZE
    view = files.open(first)
    records = os.urandom(start - first)
    view[: len(records)] = records
    files.populate(start, end)
    assert view[: len(records)] == records
    assert not any(view[len(records) :])


def test_filled_pages_are_unmapped_and_stay_as_they_are(files: AppendedFiles) -> None:
    """A sync interrupts the writer's processor for each changed page that it has mapped."""
    ranges = range(0, FILE_SIZE, STEP)
    records = os.urandom(FILE_SIZE)
    view = files.open(0)
    for start in ranges:
        files.populate(start, start + STEP)
        view[start : start + STEP] = records[start : start + STEP]
        assert _mapped_bytes(files) <= 2 * STEP
    assert view == records


def _mapped_bytes(files: AppendedFiles) -> int:
    """How much of the first file is mapped into this process."""
    path = str(files._files.directory / file_name(0))
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    return sum(
        1024 * int(next(line for line in lines if line.startswith("Rss:")).split()[1])
        for line in lines
        if line.endswith(path)
    )


def test_populating_never_goes_beyond_the_file(files: AppendedFiles) -> None:
    view = files.open(0)
    files.populate(FILE_SIZE - 5000, FILE_SIZE + 5000)
    assert (files._files.directory / file_name(0)).stat().st_size == FILE_SIZE
    assert not any(view)


def test_stores_need_no_populated_memory(
    files: AppendedFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def failing(*_: object) -> int:
        calls.append(1)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pwrite", failing)
    view = files.open(0)
    files.populate(0, 4096)
    files.populate(4096, 8192)
    view[:4] = b"data"
    assert calls == [1]
    assert "pages not prefaulted" in caplog.text
