import fcntl
import os
import select
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ipc.errors import StoreLocked
from ipc.store_lock import StoreLock
from support.descriptors import settled_descriptors

Fork = Callable[[Callable[[], object]], Any]


class Gate:
    """A pipe that blocks a child until it is killed or released."""

    def __init__(self) -> None:
        self._ready = os.pipe()
        self._go = os.pipe()
        self._fds = [*self._ready, *self._go]

    def stay(self) -> None:
        os.write(self._ready[1], b"x")
        os.close(self._go[1])
        os.read(self._go[0], 1)

    def wait_until_there(self) -> None:
        assert os.read(self._ready[0], 1) == b"x"

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.close()


def test_store_can_be_locked_only_once(tmp_path: Path) -> None:
    lock = StoreLock.take(tmp_path / "lock")
    with pytest.raises(StoreLocked) as raised:
        StoreLock.take(tmp_path / "lock")
    assert raised.value.pids == [os.getpid()]
    assert str(os.getpid()) in str(raised.value)
    assert str(tmp_path) in str(raised.value)
    lock.close()
    StoreLock.take(tmp_path / "lock").close()


def test_lock_file_contents_equal_rocketmqs(tmp_path: Path) -> None:
    StoreLock.take(tmp_path / "lock").close()
    StoreLock.take(tmp_path / "lock").close()
    assert (tmp_path / "lock").read_bytes() == b"lock"


def test_refused_lock_leaks_no_descriptor(tmp_path: Path) -> None:
    lock = StoreLock.take(tmp_path / "lock")
    before = settled_descriptors()
    with pytest.raises(StoreLocked):
        StoreLock.take(tmp_path / "lock")
    assert sorted(os.listdir("/proc/self/fd")) == before
    lock.close()


def test_lock_is_released_when_its_holder_is_killed(tmp_path: Path, fork: Fork, gate: Gate) -> None:
    def hold() -> None:
        StoreLock.take(tmp_path / "lock")
        gate.stay()

    child = fork(hold)
    gate.wait_until_there()
    with pytest.raises(StoreLocked) as raised:
        StoreLock.take(tmp_path / "lock")
    assert raised.value.pids == [child.pid]
    child.kill()
    StoreLock.take(tmp_path / "lock").close()


def test_inherited_lock_survives_the_parents_death(tmp_path: Path, fork: Fork, gate: Gate) -> None:
    pid_file = tmp_path / "child"

    def parent() -> None:
        StoreLock.take(tmp_path / "lock")
        child = os.fork()
        if child == 0:
            pid_file.write_text(str(os.getpid()))
            gate.stay()
            os._exit(0)
        os.waitpid(child, 0)

    supervisor = fork(parent)
    gate.wait_until_there()
    child_pid = int(pid_file.read_text())
    with pytest.raises(StoreLocked) as raised:
        StoreLock.take(tmp_path / "lock")
    assert raised.value.pids == sorted([supervisor.pid, child_pid])
    supervisor.kill()
    with pytest.raises(StoreLocked) as raised:
        StoreLock.take(tmp_path / "lock")
    assert raised.value.pids == [child_pid]
    child_end = os.pidfd_open(child_pid)
    gate.close()  # the child ends
    assert select.select([child_end], [], [], 60)[0]
    os.close(child_end)
    StoreLock.take(tmp_path / "lock").close()


def test_closing_another_descriptor_does_not_release_the_lock(tmp_path: Path) -> None:
    lock = StoreLock.take(tmp_path / "lock")
    (tmp_path / "lock").read_bytes()
    with pytest.raises(StoreLocked):
        StoreLock.take(tmp_path / "lock")
    lock.close()


RECORD_LOCK = struct.Struct("@hhqqi4x")
JAVA_LIKE = """
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
try:
    fcntl.fcntl(fd, fcntl.F_SETLK, struct.pack("@hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))
except OSError:
    sys.exit(3)
print("locked", flush=True)
sys.stdin.read()
"""


def test_our_lock_and_a_java_brokers_lock_exclude_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", JAVA_LIKE, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"locked\n"
        with pytest.raises(StoreLocked) as raised:
            StoreLock.take(tmp_path / "lock")
        assert raised.value.pids == [broker.pid]
        broker.kill()
    lock = StoreLock.take(tmp_path / "lock")
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 3
    lock.close()


def test_only_the_first_byte_is_locked(tmp_path: Path) -> None:
    lock = StoreLock.take(tmp_path / "lock")
    other = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.fcntl(other, fcntl.F_OFD_SETLK, RECORD_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 1, 1, 0))
    os.close(other)
    lock.close()


def test_missing_folder_is_not_a_locked_store(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StoreLock.take(tmp_path / "nowhere" / "lock")
