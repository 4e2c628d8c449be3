"""No file is written through a symbolic link put in its place, even one created just before the write."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance import process
from broker.broker_conf import BrokerConf
from broker.json_file import JsonFile
from broker.timers.bucket_files import BucketFiles
from ipc.store_lock import StoreLock
from nameserver.file_writer import replace_file
from store.checkpoint import Checkpoint, write_checkpoint
from store.consume_queue.sparse_file import make_sparse_file
from store.filter.python.functions import FunctionFolder
from store.mapped_file import MappedFile

VICTIM = b"not to be touched"


def write_bucket(path: Path) -> None:
    BucketFiles(path.parent)


def write_own_file(path: Path) -> None:
    os.close(process.open_own_file(os.fspath(path), os.O_WRONLY | os.O_TRUNC))


IN_PLACE: dict[str, Callable[[Path], object]] = {
    "the store's lock": StoreLock.take,
    "checkpoint": lambda path: write_checkpoint(path, Checkpoint(1, 2, 3)),
    "a file of the log": lambda path: MappedFile(path, 0, len(VICTIM), writable=True),
    "a bucket of timers": write_bucket,
    "a log file": write_own_file,
}

BY_RENAMING: dict[str, tuple[str, Callable[[Path], object]]] = {
    "topics.json": ("topics.json.tmp", lambda path: JsonFile(path).save("{}")),
    "broker.conf": ("broker.conf.tmp", lambda path: BrokerConf(path).set({"a": "b"})),
    "kvConfig.json": ("kvConfig.json.tmp", lambda path: replace_file(path, b"{}")),
    "function.py": ("function.tmp", lambda path: FunctionFolder(path.parent).put("function", "")),
}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(VICTIM)
    return path


@pytest.mark.parametrize("what", IN_PLACE)
def test_in_place_write_does_not_follow_a_symbolic_link(what: str, victim: Path, tmp_path: Path) -> None:
    link = tmp_path / "data" / f"{0:020}"
    link.parent.mkdir()
    link.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        IN_PLACE[what](link)
    assert victim.read_bytes() == VICTIM


@pytest.mark.parametrize("what", BY_RENAMING)
def test_atomic_replacement_does_not_follow_a_symbolic_link(what: str, victim: Path, tmp_path: Path) -> None:
    temporary, write = BY_RENAMING[what]
    path = tmp_path / "data" / what
    path.parent.mkdir()
    path.write_text("")
    (path.parent / temporary).symlink_to(victim)
    write(path)
    assert victim.read_bytes() == VICTIM
    assert not path.is_symlink()
    assert not (path.parent / temporary).is_symlink()


def test_queue_file_creation_does_not_follow_a_symbolic_link(victim: Path, tmp_path: Path) -> None:
    queues = tmp_path / "consumequeue"
    queues.mkdir()
    (queues / ".making").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        make_sparse_file(queues / "Topic" / "0" / f"{0:020}", 100)
    assert victim.read_bytes() == VICTIM
