"""A start that cannot succeed prints one clear line, exits with a non-zero code and damages nothing."""

import fcntl
import os
import socket
from pathlib import Path

import pytest

from support.headrace_process import HeadraceProcess
from support.servers import free_ports

pytestmark = pytest.mark.slow

UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]


def in_mounts(*mounts: str) -> list[str]:
    """A command prefix that runs a program in its own mount namespace."""
    commands = " && ".join(f"mount {mount}" for mount in mounts)
    return [*UNSHARE, "sh", "-c", f'{commands} && exec "$@"', "sh"]


def one_line(appliance: HeadraceProcess, code: int = 3) -> str:
    """The only line that a failed start has printed."""
    assert appliance.wait_end() == code
    assert appliance.out == ""
    assert appliance.err.count("\n") == 1, appliance.err
    assert appliance.err.startswith("headrace: ")
    return appliance.err.removeprefix("headrace: ").rstrip("\n")


def picture(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a folder: sizes, modification times, contents."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in {"lock", "stacks.log"}
    }


def no_segments(data: Path) -> bool:
    from ipc.names import instance_hash  # noqa: PLC0415

    return not any(instance_hash(data / "store") in name for name in os.listdir("/dev/shm"))


@pytest.mark.parametrize(
    ("which", "what"), [("name server", "name server"), ("broker", "broker"), ("vip", "VIP channel"), ("ha", "HA")]
)
def test_error_names_the_port_in_use_and_its_holder(tmp_path: Path, which: str, what: str) -> None:
    name_server, broker = free_ports()
    port = {"name server": name_server, "broker": broker, "vip": broker - 2, "ha": broker + 1}[which]
    with (
        socket.create_server(("127.0.0.1", port)),
        HeadraceProcess(tmp_path / "data", ports=(name_server, broker)) as appliance,
    ):
        line = one_line(appliance)
    assert line.startswith(f"port {port} ({what}) is in use by pid {os.getpid()} (")
    assert "--port" in line
    assert no_segments(tmp_path / "data")


def test_error_names_all_ports_in_use(tmp_path: Path) -> None:
    name_server, broker = free_ports()
    with (
        socket.create_server(("127.0.0.1", name_server)),
        socket.create_server(("127.0.0.1", broker)),
        HeadraceProcess(tmp_path / "data", ports=(name_server, broker)) as appliance,
    ):
        line = one_line(appliance)
    assert f"port {name_server} (name server)" in line
    assert f"port {broker} (broker)" in line


def test_error_names_an_address_of_another_machine(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", "--host", "203.0.113.1") as appliance:
        assert one_line(appliance).startswith("cannot listen on 203.0.113.1:")


def test_start_fails_when_the_data_folder_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    with HeadraceProcess(tmp_path / "data") as appliance:
        assert f"{tmp_path}/data or one of its parents is a file, not a folder" in one_line(appliance)
    assert (tmp_path / "data").read_text() == "not a folder"


def test_start_fails_when_the_data_folder_is_not_writable(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with HeadraceProcess(data, prefix=in_mounts(f"-t tmpfs -o ro tmpfs {data}")) as appliance:
        assert "is on a read-only file system" in one_line(appliance)


def test_start_fails_without_space_for_a_commit_log_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with HeadraceProcess(data, prefix=in_mounts(f"-t tmpfs -o size=64m tmpfs {data}")) as appliance:
        line = one_line(appliance)
    assert line.startswith(f"not enough space: {data}/store/commitlog has ")
    assert "needs 1,073,741,824" in line
    assert "mappedFileSizeCommitLog" in line


def test_start_fails_when_the_disk_is_full(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    # Four inodes: enough for some folders and nothing more.
    with HeadraceProcess(data, prefix=in_mounts(f"-t tmpfs -o nr_inodes=4 tmpfs {data}")) as appliance:
        assert one_line(appliance).startswith("no space left to write to ")


def test_start_fails_when_shared_memory_is_too_small(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", prefix=in_mounts("-t tmpfs -o size=1m tmpfs /dev/shm")) as appliance:
        line = one_line(appliance)
    assert line.startswith("shared memory: ")
    assert "/dev/shm has" in line
    assert "queueTableCapacity" in line


def test_start_fails_when_another_appliance_uses_the_data_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="ok").wait_ready() as first:
        before = first.status()["roles"]["worker"]["pid"]
        with HeadraceProcess(data, ports=free_ports()) as second:
            assert second.wait_end() == 3
            assert second.err.startswith(f"headrace: data folder {data} is in use by a running appliance (pid")
            assert str(first.process.pid) in second.err
            assert f"headrace stop --data {data}" in second.err
        assert first.status()["roles"]["worker"]["pid"] == before
        assert first.stop() == 0


def test_start_fails_when_a_java_broker_holds_the_store_lock(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "store").mkdir(parents=True)
    with (data / "store" / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        with HeadraceProcess(data, "--set", "storeLockWait=200") as appliance:
            assert appliance.wait_end() == 3
            assert f"is in use: {data}/store/lock is locked by pid {os.getpid()}; " in appliance.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "flushDiskType=SOMETIMES"], "flushDiskType=SOMETIMES: expected ASYNC_FLUSH or SYNC_FLUSH"),
        (["--set", "listenPorts=1"], "--set listenPorts=1: unknown key listenPorts (did you mean listenPort?)"),
        (
            ["--set", "storePathRootDir=/elsewhere/store"],
            "--set storePathRootDir: storePathRootDir=/elsewhere/store conflicts with",
        ),
        (["-c", "/nowhere/broker.conf"], "/nowhere/broker.conf: No such file or directory"),
        (["--config", "/nowhere/appliance.toml"], "/nowhere/appliance.toml: No such file or directory"),
    ],
)
def test_start_fails_with_an_invalid_configuration(tmp_path: Path, arguments: list[str], message: str) -> None:
    with HeadraceProcess(tmp_path / "data", *arguments) as appliance:
        assert one_line(appliance, 2).startswith(message)
    assert not (tmp_path / "data").exists()


def test_failed_start_leaves_the_store_unchanged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, toy="ok").wait_ready() as first:
        assert first.stop() == 0
    (data / "store" / "commitlog" / "00000000000000000000").write_bytes(b"\xda\xa3" * 4096)
    (data / "store" / "abort").touch()
    before = picture(data)
    name_server, broker = free_ports()
    with (
        socket.create_server(("127.0.0.1", broker)),
        HeadraceProcess(data, ports=(name_server, broker)) as appliance,
    ):
        one_line(appliance)
    with HeadraceProcess(data, prefix=in_mounts("-t tmpfs -o size=1m tmpfs /dev/shm")) as appliance:
        one_line(appliance)
    assert picture(data) == before
    assert no_segments(data)
