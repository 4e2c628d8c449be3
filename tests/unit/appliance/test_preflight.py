import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance import preflight
from appliance.errors import PreflightFailed
from support.servers import free_port


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EACCES, "is not writable by user"),
        (errno.ENOSPC, "no space left"),
        (errno.EROFS, "is on a read-only file system"),
        (errno.ENOTDIR, "is a file, not a folder"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_unusable_folder_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, {errno.EIO: "Input/output error"}.get(number, "?"))

    monkeypatch.setattr(preflight.os, "makedirs", refuse)
    with pytest.raises(PreflightFailed, match=message):
        preflight.make_folders([tmp_path / "data"])


def test_folder_check_leaves_no_files(tmp_path: Path) -> None:
    preflight.make_folders([tmp_path / "a" / "b"])
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_existing_store_needs_no_free_space(tmp_path: Path) -> None:
    with pytest.raises(PreflightFailed, match="not enough space"):
        preflight.check_space(tmp_path, 1 << 60)
    (tmp_path / "00000000000000000000").touch()
    assert preflight.check_space(tmp_path, 1 << 60) == []


def test_low_disk_space_is_a_warning(tmp_path: Path) -> None:
    space = os.statvfs(tmp_path)
    (warning,) = preflight.check_space(tmp_path, space.f_bavail * space.f_frsize // 2)
    assert "has space for only" in warning


def test_port_in_use_is_named(taken_port: int) -> None:
    with pytest.raises(PreflightFailed, match=rf"port {taken_port} \(broker\) is in use"):
        preflight.check_ports("127.0.0.1", {taken_port: "broker"})


def test_port_check_leaves_the_port_free() -> None:
    free = free_port()
    for _ in range(2):
        preflight.check_ports("127.0.0.1", {free: "broker"})


@pytest.mark.parametrize(("limit", "warnings"), [(100_000, 0), (4_096, 1)])
def test_low_open_file_limit_is_a_warning(limit: int, warnings: int) -> None:
    assert len(preflight.check_open_files(limit)) == warnings


def test_insufficient_open_file_limit_is_an_error() -> None:
    with pytest.raises(PreflightFailed, match="ulimit -n"):
        preflight.check_open_files(256)
