"""The end of the log is synced before a broker that stops says how far it has come."""

import os
from pathlib import Path

import pytest

from broker.appending.final_sync import sync_log

SIZE = 1000


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were synced."""
    names: list[str] = []

    def note(fd: int) -> None:
        names.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)

    monkeypatch.setattr(os, "fdatasync", note)
    return names


@pytest.mark.parametrize(
    ("begin", "end", "files"),
    [
        (0, 1, [0]),
        (0, 1000, [0]),
        (999, 1001, [0, 1000]),
        (1000, 2500, [1000, 2000]),
        (2500, 2500, []),
        (3500, 3600, []),
    ],
)
def test_all_files_between_two_offsets_are_synced(
    tmp_path: Path, synced: list[str], begin: int, end: int, files: list[int]
) -> None:
    for start in (0, 1000, 2000):
        (tmp_path / f"{start:020d}").touch()
    sync_log(tmp_path, SIZE, begin, end)
    assert synced == [f"{start:020d}" for start in files]
