"""The file `abort` tells a kill of processes from a crash of the machine, and a store from its copy."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from store import abort_file
from store.abort_file import distrust, is_same_boot, note_dispatched, was_dispatched, write_abort


def make_abort(path: Path) -> Path:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        write_abort(fd)
    finally:
        os.close(fd)
    return path


def test_abort_file_of_the_running_kernel_is_recognized(tmp_path: Path) -> None:
    path = make_abort(tmp_path / "abort")
    assert is_same_boot(path)
    assert is_same_boot(path.rename(tmp_path / "moved"))


def test_abort_file_of_a_store_that_was_in_use_before_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "abort"
    path.write_text("f" * 200)
    assert is_same_boot(make_abort(path))


def test_abort_file_in_a_copy_of_the_store_says_nothing(tmp_path: Path) -> None:
    copy = shutil.copy2(make_abort(tmp_path / "abort"), tmp_path / "copy")
    assert not is_same_boot(Path(copy))


def test_copy_that_got_the_inode_of_the_deleted_file_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_abort(tmp_path / "abort")
    note_dispatched(path)
    created = abort_file._creation_ns
    monkeypatch.setattr(abort_file, "_creation_ns", lambda fd: created(fd) + 1)
    assert not is_same_boot(path)
    assert not was_dispatched(path)


def test_creation_time_stays(tmp_path: Path) -> None:
    path = make_abort(tmp_path / "abort")
    said = subprocess.run(["stat", "--format=%W", path], check=True, capture_output=True, text=True).stdout
    os.utime(path, (1, 1))
    note_dispatched(path)
    fd = os.open(path, os.O_RDONLY)
    try:
        assert abort_file._creation_ns(fd) // 10**9 == int(said)
    finally:
        os.close(fd)
    assert was_dispatched(path)


def test_abort_file_of_another_boot_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_abort(tmp_path / "abort")
    other = tmp_path / "boot_id"
    other.write_text("2f6ab0a1-35a2-4b5c-9b0e-000000000000\n")
    monkeypatch.setattr(abort_file, "_BOOT_ID", other)
    assert not is_same_boot(path)


def test_abort_file_is_empty_where_the_boot_id_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abort_file, "_BOOT_ID", tmp_path / "none")
    path = make_abort(tmp_path / "abort")
    assert path.read_bytes() == b""
    assert not is_same_boot(path)


@pytest.mark.parametrize("content", [b"", b"4711", b"\xff" * 64])
def test_abort_file_of_rocketmq_or_a_damaged_one_says_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "abort"
    path.write_bytes(content)
    assert not is_same_boot(path)
    assert not is_same_boot(tmp_path / "none")


def test_link_in_place_of_the_abort_file_says_nothing(tmp_path: Path) -> None:
    path = make_abort(tmp_path / "elsewhere")
    (tmp_path / "abort").symlink_to(path)
    assert not is_same_boot(tmp_path / "abort")


def test_abort_file_is_not_believed_after_a_failed_sync(tmp_path: Path) -> None:
    path = make_abort(tmp_path / "abort")
    distrust(path)
    assert path.exists()
    assert not is_same_boot(path)
    distrust(tmp_path / "none")


def test_abort_file_says_when_all_was_dispatched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_abort(tmp_path / "abort")
    assert not was_dispatched(path)
    for _ in range(2):  # a restarted broker notes it again
        note_dispatched(path)
        assert was_dispatched(path)
        assert is_same_boot(path)
    copy = Path(shutil.copy2(path, tmp_path / "copy"))
    assert not was_dispatched(copy)
    make_abort(path)  # the next start
    assert is_same_boot(path)
    assert not was_dispatched(path)
    note_dispatched(path)
    other = tmp_path / "boot_id"
    other.write_text("2f6ab0a1-35a2-4b5c-9b0e-000000000000\n")
    monkeypatch.setattr(abort_file, "_BOOT_ID", other)
    assert not was_dispatched(path)


def test_nothing_is_noted_in_an_abort_file_that_is_not_believed(tmp_path: Path) -> None:
    path = make_abort(tmp_path / "abort")
    distrust(path)
    note_dispatched(path)
    assert path.read_bytes() == b""
    note_dispatched(tmp_path / "none")
    assert not (tmp_path / "none").exists()
