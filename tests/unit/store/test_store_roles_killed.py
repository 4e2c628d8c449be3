"""Flush, housekeeper and recovery, killed with SIGKILL at their named places: what is left, and that the next one goes on."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipc.instance import Instance
from ipc.publish.broker import BrokerPublisher
from ipc.publish.log import LogPublisher
from ipc.role_context import RoleContext
from store import fault_point
from store.checkpoint import FILE_SIZE, read_checkpoint
from store.config import SYNC_FLUSH
from store.flush import daemon as flush
from store.housekeeping import daemon as housekeeping
from store.housekeeping.decide import files_ahead
from store.index.layout import file_size
from store.mapped_file import path_of
from store.recovery.recover import recover
from support.store_files import (
    LOG_FILE_SIZE,
    LogBuilder,
    RunningRole,
    eventually,
    put_entry,
    running_instance,
    small_config,
)

pytestmark = pytest.mark.slow

FILES = 5
DAY_S = 86_400


@pytest.fixture
def builder(tmp_path: Path) -> LogBuilder:
    """Five log files, the first four of them expired, and one queue."""
    builder = LogBuilder(
        small_config(tmp_path, flush_disk_type=SYNC_FLUSH, delete_when="", delete_commit_log_files_interval=1)
    )
    while builder.offset < (FILES - 1) * LOG_FILE_SIZE:
        put_entry(builder.paths, builder.append(body=bytes(4096)))
    for number in range(FILES - 1):
        old = time.time() - 4 * DAY_S
        os.utime(path_of(builder.paths.commit_log, number * LOG_FILE_SIZE), (old, old))
    return builder


@pytest.fixture
def instance(builder: LogBuilder) -> Iterator[Instance]:
    end = builder.offset
    with running_instance(
        builder.paths.root,
        wrote_offset=end,
        reput_offset=end,
        allocated_offset=FILES * LOG_FILE_SIZE,
        reput_timestamp=7,
    ) as made:
        table, ring = made.queue_table_writer(), made.changed_rows_writer()
        row = table.add(b"T", 0)
        table.update(row, 0, len(builder.written), end)
        ring.add([row])
        yield made


def killed(instance: Instance, role: str, work: Callable[[RoleContext], None], place: str, stop: bool = False) -> bool:
    """Runs a role in a child that kills itself at a place; whether it came by. `stop`: it is told to stop at once."""
    stop_fd, write_fd = os.pipe()
    if stop:
        os.write(write_fd, b"x")
    child = os.fork()
    if child == 0:
        fault_point.arm(place)
        try:
            work(RoleContext(role, instance, instance.bells[role], stop_fd))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    os.close(stop_fd)
    os.close(write_fd)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def log_files(builder: LogBuilder) -> list[int]:
    sizes = {path.stat().st_size for path in builder.paths.commit_log.iterdir()}
    assert sizes == {LOG_FILE_SIZE}
    return sorted(int(path.name) // LOG_FILE_SIZE for path in builder.paths.commit_log.iterdir())


def test_flush_killed_after_a_sync_repeats_it(builder: LogBuilder, instance: Instance) -> None:
    LogPublisher(instance.control).wrote(builder.offset + 1, 6)

    def work(context: RoleContext) -> None:
        flush.run(context, builder.config, builder.paths)

    assert killed(instance, "flush", work, "flush.synced")
    assert instance.control.flushed_offset == builder.offset
    role = RunningRole(instance, "flush", work)
    eventually(lambda: instance.control.flushed_offset == builder.offset + 1)
    role.close()


@pytest.fixture
def keep_house(builder: LogBuilder) -> Callable[[RoleContext], None]:
    def work(context: RoleContext) -> None:
        housekeeping.run(context, builder.config, builder.paths, is_log_copied=False)

    return work


def test_housekeeping_killed_after_reserving_leaves_a_complete_file(
    builder: LogBuilder, instance: Instance, keep_house: Callable[[RoleContext], None]
) -> None:
    assert killed(instance, "housekeeper", keep_house, "housekeeping.reserved")
    assert log_files(builder) == list(range(FILES + 1))
    assert instance.control.allocated_offset == FILES * LOG_FILE_SIZE
    role = RunningRole(instance, "housekeeper", keep_house)
    eventually(lambda: instance.control.allocated_offset == (FILES + files_ahead(LOG_FILE_SIZE)) * LOG_FILE_SIZE)
    role.close()


@pytest.mark.parametrize(("place", "left"), [("housekeeping.min_raised", 0), ("housekeeping.deleted", 1)])
def test_housekeeping_killed_while_deleting_leaves_no_gap(
    builder: LogBuilder, instance: Instance, keep_house: Callable[[RoleContext], None], place: str, left: int
) -> None:
    BrokerPublisher(instance.control).delete_expired_requests()
    assert killed(instance, "housekeeper", keep_house, place)
    assert instance.control.min_offset == LOG_FILE_SIZE
    assert log_files(builder)[0] == left
    role = RunningRole(instance, "housekeeper", keep_house)
    eventually(lambda: instance.control.delete_expired_handled == 1)
    assert instance.control.min_offset == (FILES - 1) * LOG_FILE_SIZE
    assert log_files(builder)[0] == FILES - 1
    role.close()


@pytest.mark.parametrize("place", ["housekeeping.queue_synced", "checkpoint.written"])
def test_housekeeping_killed_while_syncing_leaves_a_correct_checkpoint(
    builder: LogBuilder, instance: Instance, keep_house: Callable[[RoleContext], None], place: str
) -> None:
    assert killed(instance, "housekeeper", keep_house, place, stop=True)
    assert read_checkpoint(builder.paths.checkpoint).logics_timestamp in (0, 7)
    role = RunningRole(instance, "housekeeper", keep_house)
    role.stop()
    assert read_checkpoint(builder.paths.checkpoint).logics_timestamp == 7
    assert builder.paths.checkpoint.stat().st_size == FILE_SIZE
    role.close()


@pytest.mark.parametrize(
    "place",
    ["recovery.surveyed", "tail.wiped", "tail.wiped:2", "recovery.wiped", "recovery.cut", "recovery.index_dropped"],
)
def test_killed_recovery_is_completed_by_the_next(builder: LogBuilder, instance: Instance, place: str) -> None:
    last = builder.written[-20]
    start = last.physical_offset - last.physical_offset % LOG_FILE_SIZE
    with path_of(builder.paths.commit_log, start).open("r+b") as file:
        file.seek(last.physical_offset - start + 100)
        file.write(b"damage")
    (builder.paths.index / "20260101000000000").write_bytes(
        bytes(file_size(builder.config.max_hash_slot_num, builder.config.max_index_num))
    )
    builder.paths.abort.touch()
    assert killed(instance, "flush", lambda _: recover(builder.config, builder.paths) and None, place)
    found = recover(builder.config, builder.paths)
    assert found.wrote_offset == last.physical_offset
    assert log_files(builder) == list(range(FILES))
    data = b"".join(path.read_bytes() for path in sorted(builder.paths.commit_log.iterdir()))
    assert not data[last.physical_offset :].strip(b"\0")
    assert list(builder.paths.index.iterdir()) == []
