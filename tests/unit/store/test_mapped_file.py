import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from store import mapped_file
from store.errors import StoreFull, WrongFileLength
from store.mapped_file import MappedFile, punch_range, reserve_file, wipe_range
from support.descriptors import settled_descriptors

SIZE = 1 << 16


@pytest.fixture
def path(tmp_path: Path) -> Path:
    directory = tmp_path / "commitlog"
    directory.mkdir()
    return directory / "00000000000000000000"


def test_reserved_file_is_zero_and_fully_allocated(path: Path) -> None:
    reserve_file(path, SIZE)
    assert path.read_bytes() == bytes(SIZE)
    assert path.stat().st_blocks * 512 >= SIZE


def test_reserving_leaves_nothing_else_in_the_directory(path: Path) -> None:
    reserve_file(path, SIZE)
    assert os.listdir(path.parent) == [path.name]
    assert os.listdir(path.parent.parent) == ["commitlog"]


def test_reserving_does_not_change_an_existing_file(path: Path) -> None:
    path.write_bytes(b"what was there")
    reserve_file(path, SIZE)
    assert path.read_bytes() == b"what was there"


def test_temporary_file_is_used_if_unnamed_files_are_not_supported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really_open = os.open

    def refuse_nameless(name: object, flags: int, *args: int, **names: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return really_open(name, flags, *args, **names)  # type: ignore[arg-type]

    monkeypatch.setattr(mapped_file.os, "open", refuse_nameless)
    reserve_file(path, SIZE)
    monkeypatch.undo()
    assert path.read_bytes() == bytes(SIZE)
    assert os.listdir(path.parent.parent) == ["commitlog"]


def test_full_disk_error_names_the_remedy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mapped_file.os, "posix_fallocate", no_space)
    with pytest.raises(StoreFull, match=rf"cannot allocate {path}: {SIZE} bytes needed, \d+ available; free up space"):
        reserve_file(path, SIZE)
    assert os.listdir(path.parent) == []


def test_error_about_a_file_of_another_length_names_it_and_the_remedy(path: Path) -> None:
    path.write_bytes(b"short")
    with pytest.raises(WrongFileLength) as caught:
        MappedFile(path, 0, SIZE, writable=True, size_option="mappedFileSizeCommitLog")
    assert str(path) in str(caught.value)
    assert "has 5 bytes, but mappedFileSizeCommitLog=65536" in str(caught.value)
    assert path.read_bytes() == b"short"


def test_data_written_to_a_mapping_is_in_the_file(path: Path) -> None:
    reserve_file(path, SIZE)
    file = MappedFile(path, 0, SIZE, writable=True)
    file.view[10:14] = b"here"
    assert path.read_bytes()[8:16] == b"\0\0here\0\0"
    file.close()


def test_read_only_mapping_cannot_be_written(path: Path) -> None:
    reserve_file(path, SIZE)
    file = MappedFile(path, 0, SIZE, writable=False)
    with pytest.raises(TypeError):
        file.view[0] = 1
    file.close()


def test_slices_stay_valid_after_close_and_deletion(path: Path) -> None:
    path.write_bytes(b"x" * SIZE)
    file = MappedFile(path, 0, SIZE, writable=False)
    piece = file.view[100:110]
    file.close()
    path.unlink()
    assert bytes(piece) == b"x" * 10


def test_closing_twice_is_harmless(path: Path) -> None:
    reserve_file(path, SIZE)
    file = MappedFile(path, 0, SIZE, writable=False)
    file.close()
    file.close()


@pytest.mark.parametrize("refused", [(), (0x10,), (0x10, 0x02)], ids=["zero range", "hole", "zeros written"])
def test_wiping_zeroes_only_the_range_and_keeps_blocks_and_length(
    path: Path, monkeypatch: pytest.MonkeyPatch, refused: tuple[int, ...]
) -> None:
    really = mapped_file._try_fallocate

    def refuse(fd: int, mode: int, position: int, length: int) -> bool:
        return not any(mode & flag for flag in refused) and really(fd, mode, position, length)

    monkeypatch.setattr(mapped_file, "_try_fallocate", refuse)
    path.write_bytes(b"x" * SIZE)
    with path.open("r+b") as file:
        wipe_range(file.fileno(), 5000, 20000)
    assert path.read_bytes() == b"x" * 5000 + bytes(20000) + b"x" * (SIZE - 25000)
    assert path.stat().st_blocks * 512 >= SIZE


def test_wiping_an_empty_range_changes_nothing(path: Path) -> None:
    path.write_bytes(b"x" * 10)
    with path.open("r+b") as file:
        wipe_range(file.fileno(), 10, 0)
        wipe_range(file.fileno(), 5, -1)
    assert path.read_bytes() == b"x" * 10


def test_punched_range_is_zero_and_its_blocks_are_freed(path: Path) -> None:
    path.write_bytes(b"x" * SIZE)
    with path.open("r+b") as file:
        punch_range(file.fileno(), 100, SIZE - 100)
    assert path.read_bytes() == b"x" * 100 + bytes(SIZE - 100)
    assert path.stat().st_blocks * 512 <= 4096


def test_process_killed_while_reserving_leaves_no_short_file(path: Path) -> None:
    program = f"""
import os, signal, store.mapped_file as m
really = os.posix_fallocate
def then_die(fd, at, size):
    really(fd, at, size // 2)
    os.kill(os.getpid(), signal.SIGKILL)
m.os.posix_fallocate = then_die
m.reserve_file(m.Path({str(path)!r}), {SIZE})
"""
    died = subprocess.run([sys.executable, "-c", program], check=False)
    assert died.returncode == -9
    assert os.listdir(path.parent) == []


def test_descriptors_are_closed(path: Path) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(settled_descriptors())
    for _ in range(20):
        path.unlink(missing_ok=True)
        reserve_file(path, SIZE)
        MappedFile(path, 0, SIZE, writable=True).close()
    assert len(os.listdir("/proc/self/fd")) == before < soft
