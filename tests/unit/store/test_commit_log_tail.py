import os
from pathlib import Path

import pytest

from store.commit_log import tail
from store.config import StoreConfig
from store.errors import SyncFailed
from store.mapped_file import path_of
from support.store_files import LOG_FILE_SIZE, small_config


@pytest.fixture
def config(tmp_path: Path) -> StoreConfig:
    config = small_config(tmp_path)
    config.paths().make_directories()
    for start in range(0, 3 * LOG_FILE_SIZE, LOG_FILE_SIZE):
        path_of(config.paths().commit_log, start).write_bytes(b"x" * LOG_FILE_SIZE)
    return config


def log_of(config: StoreConfig) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(config.paths().commit_log.iterdir()))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, 10),
        (100, 101),
        (50, LOG_FILE_SIZE + 50),
        (LOG_FILE_SIZE, 2 * LOG_FILE_SIZE),
        (7, 3 * LOG_FILE_SIZE),
        (5, 5),
        (9, 3),
    ],
)
def test_only_the_range_is_wiped_and_files_keep_their_length(config: StoreConfig, start: int, end: int) -> None:
    tail.wipe(config.paths(), config, start, end)
    length = 3 * LOG_FILE_SIZE
    expected = bytearray(b"x" * length)
    expected[start : max(start, end)] = bytes(max(0, end - start))
    assert log_of(config) == bytes(expected)


def test_missing_files_are_skipped(config: StoreConfig) -> None:
    tail.wipe(config.paths(), config, 2 * LOG_FILE_SIZE, 5 * LOG_FILE_SIZE)
    assert len(os.listdir(config.paths().commit_log)) == 3


def test_failed_sync_of_a_wipe_is_an_error(config: StoreConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(tail.os, "fdatasync", fail)
    with pytest.raises(SyncFailed, match=r"cannot sync .*00000000000000000000: Input/output error"):
        tail.wipe(config.paths(), config, 0, 10)
