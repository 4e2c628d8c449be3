import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ipc.instance import Instance
from ipc.publish.flush import FlushPublisher
from ipc.publish.log import LogPublisher
from ipc.role_context import RoleContext
from store.config import SYNC_FLUSH, StoreConfig
from store.errors import SyncFailed
from store.flush import daemon
from store.flush.log_files import LogFiles
from store.mapped_file import path_of, reserve_file
from store.paths import StorePaths
from support.descriptors import settled_descriptors
from support.python_calls import PythonCalls
from support.store_files import LOG_FILE_SIZE, RunningRole, change_options, eventually, running_instance, small_config

FILES = 4


def reserve(config: StoreConfig, count: int) -> None:
    config.paths().make_directories()
    for number in range(count):
        reserve_file(path_of(config.paths().commit_log, number * LOG_FILE_SIZE), LOG_FILE_SIZE)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with running_instance(tmp_path, allocated_offset=FILES * LOG_FILE_SIZE) as made:
        yield made


Start = Callable[[StoreConfig], RunningRole]


@pytest.fixture
def start(tmp_path: Path, instance: Instance) -> Iterator[Start]:
    roles = []

    def begin(config: StoreConfig) -> RunningRole:
        reserve(config, FILES)

        def work(context: RoleContext) -> None:
            daemon.run(context, config, config.paths())

        roles.append(RunningRole(instance, "flush", work))
        eventually(lambda: instance.health.read()["flush"].state in ("running", "failed") or roles[-1].error)
        return roles[-1]

    yield begin
    for role in roles:
        role.close()


def publish(instance: Instance, offset: int, timestamp: int) -> None:
    LogPublisher(instance.control).wrote(offset, timestamp)
    instance.bells["flush"].ring()


@pytest.mark.parametrize("timed", [True, False])
def test_changed_interval_applies_during_a_wait(tmp_path: Path, instance: Instance, start: Start, timed: bool) -> None:
    config = small_config(tmp_path, flush_interval_commit_log=3_600_000, flush_commit_log_timed=timed)
    start(config)
    publish(instance, 50, 7)
    assert instance.control.flushed_offset == 0
    change_options(instance, flushIntervalCommitLog="1", flushCommitLogThoroughInterval="1")
    eventually(lambda: instance.control.flushed_offset == 50)


def test_sync_flush_makes_written_data_durable_at_once(tmp_path: Path, instance: Instance, start: Start) -> None:
    start(small_config(tmp_path, flush_disk_type=SYNC_FLUSH, flush_interval_commit_log=60_000))
    for offset in (100, 250, LOG_FILE_SIZE + 10):
        publish(instance, offset, offset * 10)
        eventually(lambda offset=offset: instance.control.flushed_offset == offset)
    eventually(lambda: instance.control.flushed_timestamp == (LOG_FILE_SIZE + 10) * 10)


@pytest.mark.parametrize(
    ("flushed", "wrote", "synced"),
    [
        (0, 0, []),
        (50, 50, []),
        (60, 50, []),
        (LOG_FILE_SIZE, LOG_FILE_SIZE, []),
        (0, 1, [(0, 0, 1)]),
        (0, LOG_FILE_SIZE, [(0, 0, LOG_FILE_SIZE)]),
        (10, LOG_FILE_SIZE + 1, [(0, 10, LOG_FILE_SIZE), (1, LOG_FILE_SIZE, LOG_FILE_SIZE + 1)]),
        (LOG_FILE_SIZE, LOG_FILE_SIZE + 5, [(1, LOG_FILE_SIZE, LOG_FILE_SIZE + 5)]),
        (
            LOG_FILE_SIZE - 1,
            3 * LOG_FILE_SIZE,
            [
                (0, LOG_FILE_SIZE - 1, LOG_FILE_SIZE),
                (1, LOG_FILE_SIZE, 2 * LOG_FILE_SIZE),
                (2, 2 * LOG_FILE_SIZE, 3 * LOG_FILE_SIZE),
            ],
        ),
    ],
)
def test_files_are_synced_one_after_the_other(
    flushed: int, wrote: int, synced: list[tuple[int, int, int]], tmp_path: Path, instance: Instance, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    seen = []

    class NotingFiles(LogFiles):
        def sync(self, file_start: int, begin: int, end: int) -> None:
            assert instance.control.flushed_offset == begin
            assert instance.health.read()["flush"].long_call == "sync of the CommitLog"
            seen.append((file_start // LOG_FILE_SIZE, begin, end))

    monkeypatch.setattr(daemon, "LogFiles", NotingFiles)
    config = small_config(tmp_path, flush_disk_type=SYNC_FLUSH)
    stop_fd = os.open(tmp_path, os.O_RDONLY)
    context = RoleContext("flush", instance, instance.bells["flush"], stop_fd)
    FlushPublisher(instance.control).flushed(flushed, 1)
    LogPublisher(instance.control).wrote(wrote, 2)
    daemon.Flusher(context, config, config.paths()).sync_if_due()
    os.close(stop_fd)
    assert seen == synced
    assert (instance.control.flushed_offset, instance.control.flushed_timestamp) == (
        (wrote, 2) if synced else (flushed, 1)
    )
    assert instance.health.read()["flush"].long_call is None


@pytest.mark.skipif(daemon.__file__.endswith(".py"), reason="without a compiler all of them are interpreted")
def test_python_calls_of_a_sync(tmp_path: Path, instance: Instance) -> None:
    """Every message waits for them, in cold caches. A larger number needs a reason, a smaller one is noted here."""
    config = small_config(tmp_path, flush_disk_type=SYNC_FLUSH)
    reserve(config, FILES)
    stop_fd, write_fd = os.pipe()
    context = RoleContext("flush", instance, instance.bells["flush"], stop_fd)
    flusher = daemon.Flusher(context, config, config.paths())
    calls = PythonCalls()
    for offset in (100, 200):  # the first one stores the text of the announced call
        calls.counts.clear()
        publish(instance, offset, offset)
        with calls:
            context.take_stop_order()
            flusher.options.follow()
            flusher.open_files()
            flusher.sync_if_due()
            publish(instance, offset + 1, offset)
            flusher.wait()
    assert calls.counts == {"store/fault_point.py:fault_point": 1}
    flusher.close()
    os.close(stop_fd)
    os.close(write_fd)


def test_async_flush_leaves_small_writes_to_the_thorough_round(tmp_path: Path, instance: Instance) -> None:
    config = small_config(tmp_path, flush_commit_log_thorough_interval=3_600_000)
    reserve(config, FILES)
    stop_fd, write_fd = os.pipe()
    flusher = daemon.Flusher(RoleContext("flush", instance, instance.bells["flush"], stop_fd), config, config.paths())
    publish(instance, 4 * 4096 - 1, 5)
    flusher.sync_if_due()
    assert instance.control.flushed_offset == 0
    publish(instance, 4 * 4096, 6)
    flusher.sync_if_due()
    assert (instance.control.flushed_offset, instance.control.flushed_timestamp) == (4 * 4096, 6)
    flusher.close()
    os.close(stop_fd)
    os.close(write_fd)


def test_async_flush_syncs_everything_in_a_thorough_round(tmp_path: Path, instance: Instance, start: Start) -> None:
    start(small_config(tmp_path, flush_interval_commit_log=5, flush_commit_log_thorough_interval=20))
    publish(instance, 10, 6)
    eventually(lambda: instance.control.flushed_offset == 10)


def test_async_flush_can_be_woken_by_its_bell(tmp_path: Path, instance: Instance, start: Start) -> None:
    start(small_config(tmp_path, flush_interval_commit_log=60_000, flush_commit_log_timed=False))
    eventually(lambda: instance.control.asleep_flush)
    publish(instance, 8 * 4096, 6)
    eventually(lambda: instance.control.flushed_offset == 8 * 4096)


def test_stop_makes_everything_durable(tmp_path: Path, instance: Instance, start: Start) -> None:
    role = start(small_config(tmp_path, flush_interval_commit_log=60_000, flush_commit_log_thorough_interval=3_600_000))
    publish(instance, 3 * LOG_FILE_SIZE + 7, 99)
    role.stop()
    assert (instance.control.flushed_offset, instance.control.flushed_timestamp) == (3 * LOG_FILE_SIZE + 7, 99)


def test_failed_sync_is_final(
    tmp_path: Path, instance: Instance, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingFiles(LogFiles):
        fails = False

        def sync(self, file_start: int, begin: int, end: int) -> None:
            if self.fails:
                raise OSError(5, "Input/output error")
            super().sync(file_start, begin, end)

    monkeypatch.setattr(daemon, "LogFiles", FailingFiles)
    role = start(small_config(tmp_path, flush_disk_type=SYNC_FLUSH, flush_interval_commit_log=5))
    publish(instance, 100, 1)
    eventually(lambda: instance.control.flushed_offset == 100)
    abort = StorePaths(tmp_path).abort
    abort.write_text("of this boot")
    FailingFiles.fails = True
    publish(instance, 200, 2)
    eventually(lambda: instance.control.flag_log_error)
    assert abort.read_text() == ""
    FailingFiles.fails = False
    publish(instance, 300, 3)
    with pytest.raises(SyncFailed, match=r"cannot sync .*00000000000000000000: Input/output error; .*check the disk"):
        role.stop()
    assert instance.control.flushed_offset == 100


def test_failed_sync_is_final_for_the_next_process_too(tmp_path: Path, instance: Instance, start: Start) -> None:
    FlushPublisher(instance.control).log_error()
    role = start(small_config(tmp_path, flush_disk_type=SYNC_FLUSH, flush_interval_commit_log=5))
    publish(instance, 100, 1)
    with pytest.raises(SyncFailed, match="failed before"):
        role.stop()
    assert instance.control.flushed_offset == 0


def test_slave_log_that_begins_above_0_is_synced_from_its_start(tmp_path: Path) -> None:
    begin = 2 * LOG_FILE_SIZE
    config = small_config(tmp_path, flush_disk_type=SYNC_FLUSH)
    config.paths().make_directories()
    reserve_file(path_of(config.paths().commit_log, begin), LOG_FILE_SIZE)
    with running_instance(tmp_path, min_offset=begin, allocated_offset=begin + LOG_FILE_SIZE) as instance:
        role = RunningRole(instance, "flush", lambda context: daemon.run(context, config, config.paths()))
        publish(instance, begin + 100, 1)
        eventually(lambda: instance.control.flushed_offset == begin + 100)
        role.stop()
        role.close()


def test_files_are_opened_when_reserved_and_closed_when_durable(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    reserve(config, 3)
    files = LogFiles(config.paths(), LOG_FILE_SIZE)
    files.open_reserved(0, 3 * LOG_FILE_SIZE)
    assert files.open_starts == [0, LOG_FILE_SIZE, 2 * LOG_FILE_SIZE]
    files.open_reserved(LOG_FILE_SIZE + 5, 3 * LOG_FILE_SIZE)
    assert files.open_starts == [LOG_FILE_SIZE, 2 * LOG_FILE_SIZE]
    before = len(settled_descriptors())
    files.close()
    assert len(os.listdir("/proc/self/fd")) == before - 2


class Synced:
    """A mapping that notes the ranges that are synced."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, ...]] = []

    def flush(self, *of: int) -> None:
        self.ranges.append(of)

    def close(self) -> None:
        pass


class SyncedFiles(LogFiles):
    """Files whose mappings note what is synced."""

    mapping = Synced()

    def _open(self, start: int) -> Any:  # noqa: ARG002
        return self.mapping


def test_large_syncs_take_their_own_pages_and_small_ones_all_of_the_file(tmp_path: Path) -> None:
    """Zeros that the writer has populated ahead are written once for many small syncs, and by no large one."""
    size, mapping = 1 << 20, SyncedFiles.mapping
    files = SyncedFiles(StorePaths(tmp_path), size)
    files.sync(size, size + 5000, size + 5000 + (64 << 10))
    assert mapping.ranges == [()]
    files.sync(size, size + 5000, size + 5001 + (64 << 10))
    assert mapping.ranges[1:] == [(4096, 905 + (64 << 10))]
    files.sync(size, size, 2 * size)
    assert mapping.ranges[2:] == [(0, size)]
