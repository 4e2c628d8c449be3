import contextlib
import ctypes
import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.model.option import change_options as change_config
from ipc.instance import Instance
from ipc.publish.broker import BrokerPublisher
from ipc.publish.dispatch import DispatchPublisher
from ipc.publish.flush import FlushPublisher
from ipc.publish.housekeeper import HousekeeperPublisher
from ipc.publish.log import LogPublisher
from ipc.role_context import RoleContext
from store import mapped_file
from store.checkpoint import read_checkpoint
from store.config import SLAVE, StoreConfig
from store.errors import SyncFailed, WrongFileLength
from store.housekeeping import cleaner, daemon, forced_deletions, index_sync
from store.housekeeping.decide import files_ahead
from store.mapped_file import path_of, reserve_file
from store.paths import StorePaths
from support.store_files import (
    LOG_FILE_SIZE,
    LogBuilder,
    RunningRole,
    change_options,
    eventually,
    put_entry,
    running_instance,
    small_config,
)

AHEAD = files_ahead(LOG_FILE_SIZE)
DAY_S = 86_400


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with running_instance(tmp_path) as made:
        yield made


Start = Callable[[StoreConfig], RunningRole]


@pytest.fixture
def start(instance: Instance) -> Iterator[Start]:
    roles = []

    def begin(config: StoreConfig) -> RunningRole:
        config.paths().make_directories()

        def work(context: RoleContext) -> None:
            daemon.run(context, config, config.paths(), is_log_copied=config.broker_role == SLAVE)

        roles.append(RunningRole(instance, "housekeeper", work))
        eventually(lambda: instance.health.read()["housekeeper"].state == "running" or roles[-1].error)
        return roles[-1]

    yield begin
    for role in roles:
        role.close()


def files_in(paths: StorePaths) -> list[int]:
    return sorted(int(name) // LOG_FILE_SIZE for name in os.listdir(paths.commit_log))


def write(instance: Instance, offset: int, timestamp: int = 1) -> None:
    """As log writer, flush and dispatch would say it."""
    LogPublisher(instance.control).wrote(offset, timestamp)
    FlushPublisher(instance.control).flushed(offset, timestamp)
    DispatchPublisher(instance.control).reput(offset, timestamp, 0)
    instance.bells["housekeeper"].ring()


def test_files_are_reserved_before_the_role_is_ready(tmp_path: Path, instance: Instance, start: Start) -> None:
    config = small_config(tmp_path)
    start(config)
    assert files_in(config.paths()) == list(range(AHEAD + 1))
    assert instance.control.allocated_offset == (AHEAD + 1) * LOG_FILE_SIZE


def test_more_files_are_reserved_as_the_log_grows(tmp_path: Path, instance: Instance, start: Start) -> None:
    start(small_config(tmp_path))
    eventually(lambda: instance.control.asleep_housekeeper)
    write(instance, 3 * LOG_FILE_SIZE + 5)
    eventually(lambda: instance.control.allocated_offset == (3 + 1 + AHEAD) * LOG_FILE_SIZE)


def test_restarted_role_publishes_the_offsets_on_disk(tmp_path: Path, instance: Instance, start: Start) -> None:
    config = small_config(tmp_path)
    config.paths().make_directories()
    for number in range(AHEAD + 5):
        reserve_file(path_of(config.paths().commit_log, number * LOG_FILE_SIZE), LOG_FILE_SIZE)
    (tmp_path / ".reserving-commitlog-00000000000000000000").write_bytes(b"half")
    start(config)
    assert instance.control.allocated_offset == (AHEAD + 5) * LOG_FILE_SIZE
    assert not list(tmp_path.glob(".reserving*"))


def test_interrupted_deletion_of_a_predecessor_is_completed(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    config.paths().make_directories()
    for number in range(4):
        reserve_file(path_of(config.paths().commit_log, number * LOG_FILE_SIZE), LOG_FILE_SIZE)
    end = 4 * LOG_FILE_SIZE
    with running_instance(
        tmp_path, min_offset=2 * LOG_FILE_SIZE, wrote_offset=end - 5, allocated_offset=end, reput_offset=end - 5
    ) as instance:
        role = RunningRole(
            instance, "housekeeper", lambda context: daemon.run(context, config, config.paths(), is_log_copied=False)
        )
        eventually(lambda: instance.health.read()["housekeeper"].state == "running")
        assert files_in(config.paths())[0] == 2
        assert instance.control.min_offset == 2 * LOG_FILE_SIZE
        role.stop()
        role.close()


def test_start_fails_on_a_file_of_another_length(tmp_path: Path, start: Start) -> None:
    config = small_config(tmp_path)
    config.paths().make_directories()
    path_of(config.paths().commit_log, 0).write_bytes(b"short")
    role = start(config)
    assert isinstance(role.error, WrongFileLength)


def test_stop_leaves_the_same_files_as_rocketmq(tmp_path: Path, instance: Instance, start: Start) -> None:
    config = small_config(tmp_path)
    role = start(config)
    write(instance, LOG_FILE_SIZE + 1)
    role.stop()
    assert files_in(config.paths()) == [0, 1]
    assert instance.control.allocated_offset == 2 * LOG_FILE_SIZE


def test_stop_of_an_empty_store_leaves_no_log_file(tmp_path: Path, start: Start) -> None:
    config = small_config(tmp_path)
    start(config).stop()
    assert files_in(config.paths()) == []


def test_files_are_kept_while_a_log_writer_runs(tmp_path: Path, instance: Instance, start: Start) -> None:
    config = small_config(tmp_path)
    row = instance.health.supervised_row("broker")
    row.starting()
    row.forked(1)
    start(config).stop()
    assert files_in(config.paths()) == list(range(AHEAD + 1))


def test_empty_slave_waits_for_the_start_offset_of_its_log(tmp_path: Path, instance: Instance, start: Start) -> None:
    config = small_config(tmp_path, broker_role=SLAVE)
    start(config)
    assert files_in(config.paths()) == []
    LogPublisher(instance.control).requested(7 * LOG_FILE_SIZE)
    instance.bells["housekeeper"].ring()
    eventually(lambda: instance.control.allocated_offset == 8 * LOG_FILE_SIZE)
    assert instance.control.min_offset == 7 * LOG_FILE_SIZE
    write(instance, 7 * LOG_FILE_SIZE + 10)
    eventually(lambda: instance.control.allocated_offset == (8 + AHEAD) * LOG_FILE_SIZE)
    assert files_in(config.paths())[0] == 7


def test_full_disk_stops_writes_until_space_is_free(
    tmp_path: Path, instance: Instance, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "_RETRY_MS", 5)

    def no_space(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mapped_file.os, "posix_fallocate", no_space)
    start(small_config(tmp_path))
    eventually(lambda: instance.control.flag_disk_full)
    assert instance.control.allocated_offset == 0
    monkeypatch.undo()
    eventually(lambda: not instance.control.flag_disk_full)
    assert instance.control.allocated_offset == (AHEAD + 1) * LOG_FILE_SIZE


def grown(tmp_path: Path, instance: Instance, config: StoreConfig, days_old: float) -> None:
    """Five files, all but the last as old as that."""
    builder = LogBuilder(config)
    while builder.offset < 4 * LOG_FILE_SIZE + 10:
        builder.append(body=bytes(4096))
    changed = time.time() - days_old * DAY_S
    for number in range(4):
        os.utime(path_of(config.paths().commit_log, number * LOG_FILE_SIZE), (changed, changed))
    write(instance, builder.offset)


def test_operator_request_deletes_expired_files_at_any_hour(tmp_path: Path, instance: Instance, start: Start) -> None:
    config = small_config(tmp_path, delete_when="", delete_commit_log_files_interval=1)
    grown(tmp_path, instance, config, days_old=4)
    start(config)
    BrokerPublisher(instance.control).delete_expired_requests()
    instance.bells["housekeeper"].ring()
    eventually(lambda: instance.control.delete_expired_handled == 1)
    assert files_in(config.paths())[0] == 4
    assert instance.control.min_offset == 4 * LOG_FILE_SIZE


def test_operator_request_keeps_files_that_have_not_expired(tmp_path: Path, instance: Instance, start: Start) -> None:
    config = small_config(tmp_path, delete_when="")
    grown(tmp_path, instance, config, days_old=2)
    start(config)
    BrokerPublisher(instance.control).delete_expired_requests()
    instance.bells["housekeeper"].ring()
    eventually(lambda: instance.control.delete_expired_handled == 1)
    assert files_in(config.paths())[0] == 0


def test_changed_retention_time_applies_at_once(tmp_path: Path, instance: Instance, start: Start) -> None:
    config = small_config(tmp_path, delete_when="", delete_commit_log_files_interval=1)
    grown(tmp_path, instance, config, days_old=2)
    start(config)
    change_options(instance, fileReservedTime="24", brokerPermission="4")
    eventually(lambda: config.file_reserved_time == 24)
    BrokerPublisher(instance.control).delete_expired_requests()
    instance.bells["housekeeper"].ring()
    eventually(lambda: instance.control.delete_expired_handled == 1)
    assert files_in(config.paths())[0] == 4


def test_files_not_yet_dispatched_are_kept(tmp_path: Path, instance: Instance, start: Start) -> None:
    config = small_config(tmp_path, delete_when="", delete_commit_log_files_interval=1)
    grown(tmp_path, instance, config, days_old=4)
    DispatchPublisher(instance.control).reput(LOG_FILE_SIZE + 5, 0, 0)
    start(config)
    BrokerPublisher(instance.control).delete_expired_requests()
    instance.bells["housekeeper"].ring()
    eventually(lambda: instance.control.delete_expired_handled == 1)
    assert files_in(config.paths())[0] == 1


def allocated_bytes(root: Path) -> int:
    """Bytes of disk that the files below a folder occupy, each file once whatever its number of names."""
    blocks: dict[int, int] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                found = (Path(folder) / name).stat()
                blocks[found.st_ino] = found.st_blocks
    return 512 * sum(blocks.values())


def nearly_full_store(
    root: Path, instance: Instance, monkeypatch: pytest.MonkeyPatch, *, used_ratio: float, counting_ms: int
) -> StoreConfig:
    """A store whose files are all young, on a disk of its own that reports this use; the broker's count is awaited for so long."""
    monkeypatch.setattr(cleaner, "used_ratio", lambda _: used_ratio)
    # Other programs may fill the real disk meanwhile.
    monkeypatch.setattr(forced_deletions, "unused_bytes", lambda _: -allocated_bytes(root))
    monkeypatch.setattr(forced_deletions, "_COUNTING_MS", counting_ms)
    config = small_config(root, delete_when="", clean_resource_interval=1, delete_commit_log_files_interval=1)
    grown(root, instance, config, days_old=0)
    return config


def test_nearly_full_disk_deletes_the_oldest_files_and_then_stops_writes(
    tmp_path: Path, instance: Instance, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = nearly_full_store(
        tmp_path, instance, monkeypatch, used_ratio=0.95, counting_ms=20
    )  # there is no broker that would count
    start(config)
    eventually(lambda: instance.control.flag_disk_full)
    # It is raised before the file goes.
    eventually(lambda: instance.control.min_offset == 4 * LOG_FILE_SIZE and files_in(config.paths())[0] == 4)


def test_forced_deletion_waits_for_the_brokers_count_of_lost_messages(
    tmp_path: Path,
    instance: Instance,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = nearly_full_store(tmp_path, instance, monkeypatch, used_ratio=0.87, counting_ms=60_000)
    start(config)
    for number in range(4):
        end = (number + 1) * LOG_FILE_SIZE
        eventually(lambda end=end: instance.control.forced_offset == end)
        assert instance.control.min_offset == end - LOG_FILE_SIZE
        assert files_in(config.paths())[0] == number
        BrokerPublisher(instance.control).losses_counted(end)
        instance.bells["housekeeper"].ring()
        eventually(lambda number=number: files_in(config.paths())[0] == number + 1)
    eventually(lambda: instance.read_counters()["housekeeper"]["forced_deletions"] == 4)
    assert not any("without counting lost messages" in text for text in caplog.messages)


def test_announced_deletion_is_completed_by_the_next_process(
    tmp_path: Path, instance: Instance, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forced_deletions, "_COUNTING_MS", 60_000)
    config = small_config(tmp_path, delete_when="")
    grown(tmp_path, instance, config, days_old=0)
    HousekeeperPublisher(instance.control).forced_offset(LOG_FILE_SIZE)
    BrokerPublisher(instance.control).losses_counted(LOG_FILE_SIZE)
    start(config)
    eventually(lambda: files_in(config.paths())[0] == 1)
    assert instance.control.min_offset == LOG_FILE_SIZE


def test_file_with_another_hard_link_is_not_forcibly_deleted(
    tmp_path: Path,
    instance: Instance,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = nearly_full_store(tmp_path, instance, monkeypatch, used_ratio=0.87, counting_ms=20)
    held = path_of(config.paths().commit_log, LOG_FILE_SIZE)
    os.link(held, tmp_path / "held by an export")
    start(config)
    eventually(lambda: any("has another hard link" in text for text in caplog.messages))
    assert files_in(config.paths())[0] == 1
    (tmp_path / "held by an export").unlink()
    eventually(lambda: files_in(config.paths())[0] == 4)
    assert sum("has another hard link" in text for text in caplog.messages) == 1


# ---- ConsumeQueues, IndexFiles, checkpoint


class SyncedFiles:
    """What has been synced, by path under the root."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        really = os.fdatasync

        def note(fd: int) -> None:
            self.names.append(str(Path(os.readlink(f"/proc/self/fd/{fd}")).relative_to(root)))
            really(fd)

        monkeypatch.setattr(index_sync.os, "fdatasync", note)


@pytest.fixture
def queues(tmp_path: Path, instance: Instance) -> Callable[[int], int]:
    """Puts entries of one queue as dispatch does; returns the queue's new end."""
    config = small_config(tmp_path)
    builder = LogBuilder(config)
    table, ring = instance.queue_table_writer(), instance.changed_rows_writer()
    row = table.add(b"T", 0)

    def put(count: int) -> int:
        record = None
        for _ in range(count):
            record = builder.append()
            put_entry(config.paths(), record)
        assert record is not None
        table.update(row, 0, record.queue_offset + 1, builder.offset)
        ring.add([row])
        write(instance, builder.offset, record.store_timestamp)
        return record.store_timestamp

    return put


@pytest.fixture
def syncing(tmp_path: Path, instance: Instance) -> Iterator[index_sync.IndexSync]:
    stop_fd, write_fd = os.pipe()
    context = RoleContext("housekeeper", instance, instance.bells["housekeeper"], stop_fd)
    config = small_config(tmp_path, flush_interval_consume_queue=0)
    yield index_sync.IndexSync(context, config, config.paths())
    os.close(stop_fd)
    os.close(write_fd)


def test_checkpoint_covers_only_data_dispatched_before_the_syncs(
    tmp_path: Path,
    instance: Instance,
    queues: Callable[[int], int],
    syncing: index_sync.IndexSync,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timestamp = queues(3)

    def meanwhile() -> None:
        DispatchPublisher(instance.control).reput(instance.control.reput_offset, timestamp + 5000, 0)

    syncing._round(True, meanwhile)
    checkpoint = read_checkpoint(tmp_path / "checkpoint")
    assert (checkpoint.physic_timestamp, checkpoint.logics_timestamp) == (timestamp, timestamp)


def test_only_files_with_new_entries_are_synced(
    tmp_path: Path, queues: Callable[[int], int], syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = SyncedFiles(tmp_path, monkeypatch)
    queues(60)
    syncing._round(True, lambda: None)
    assert synced.names == ["consumequeue/T/0/00000000000000000000", "consumequeue/T/0/00000000000000001000"]
    synced.names.clear()
    syncing._round(True, lambda: None)
    assert synced.names == []
    queues(1)
    syncing._round(True, lambda: None)
    assert synced.names == ["consumequeue/T/0/00000000000000001000"]


def test_directories_of_many_new_queues_are_synced_once_and_before_the_checkpoint(
    tmp_path: Path, instance: Instance, syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    checkpoint = index_sync.write_checkpoint
    monkeypatch.setattr(index_sync, "sync_directory", lambda path: done.append(str(path.relative_to(tmp_path))))
    monkeypatch.setattr(index_sync, "write_checkpoint", lambda *of: (done.append("checkpoint"), checkpoint(*of)))
    builder = LogBuilder(small_config(tmp_path))
    table = instance.queue_table_writer()
    for queue_id in range(20):
        record = builder.append(queue_id=queue_id)
        put_entry(small_config(tmp_path).paths(), record)
        table.update(table.add(b"T", queue_id), 0, 1, builder.offset)
        write(instance, builder.offset, record.store_timestamp)
    syncing._round(True, lambda: None)
    queues = {f"consumequeue/T/{queue_id}" for queue_id in range(20)}
    assert sorted(done[:-1]) == sorted({"consumequeue", "consumequeue/T", *queues})
    assert done[-1] == "checkpoint"
    done.clear()
    syncing._round(True, lambda: None)
    assert done == ["checkpoint"]


@pytest.fixture
def many(tmp_path: Path, queues: Callable[[int], int], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A queue counts as many, with 3 entries; another topic's folder is on a file system of its own, and returned."""
    monkeypatch.setattr(index_sync, "_MANY_QUEUES", 0)
    queues(3)
    elsewhere = tmp_path / "consumequeue" / "Elsewhere"
    elsewhere.symlink_to("/proc/self")
    return elsewhere


def test_many_queues_are_synced_with_each_of_their_file_systems_at_the_stop(
    tmp_path: Path, many: Path, syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    checkpoint = index_sync.write_checkpoint
    monkeypatch.setattr(index_sync, "sync_file_system", lambda path: [done.append(path.stat().st_dev)])
    monkeypatch.setattr(index_sync, "write_checkpoint", lambda *of: (done.append("checkpoint"), checkpoint(*of)))
    synced = SyncedFiles(tmp_path, monkeypatch)
    syncing.sync_all()
    assert synced.names == []
    assert sorted(done[:-1]) == sorted({tmp_path.stat().st_dev, many.stat().st_dev})  # type: ignore[type-var]
    assert len(done) == 3
    assert done[-1] == "checkpoint"


def test_many_queues_are_synced_file_by_file_where_a_file_system_cannot_be(
    tmp_path: Path, many: Path, syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = SyncedFiles(tmp_path, monkeypatch)
    syncing.sync_all()  # /proc is not on a disk
    assert synced.names == ["consumequeue/T/0/00000000000000000000"]


def test_many_queues_are_synced_file_by_file_while_the_broker_runs(
    tmp_path: Path, many: Path, syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = SyncedFiles(tmp_path, monkeypatch)
    many.unlink()
    syncing._round(True, lambda: None)
    assert synced.names == ["consumequeue/T/0/00000000000000000000"]


def test_checkpoint_is_not_written_after_a_failed_sync_of_a_file_system(
    tmp_path: Path, many: Path, syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    many.unlink()

    def fail(_: int) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(mapped_file, "_SYNCED_AS_A_WHOLE", range(1 << 63))  # every type
    monkeypatch.setattr(mapped_file, "_syncfs", fail)
    with pytest.raises(SyncFailed, match=r"cannot sync .*consumequeue.*: Input/output error"):
        syncing.sync_all()
    assert not (tmp_path / "checkpoint").exists()


def test_extended_units_are_synced_with_their_queues(
    tmp_path: Path, queues: Callable[[int], int], syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncing._config = replace(syncing._config, enable_consume_queue_ext=True)
    synced = SyncedFiles(tmp_path, monkeypatch)
    directories: list[Path] = []
    monkeypatch.setattr(index_sync, "sync_directory", directories.append)
    queues(3)
    syncing._round(True, lambda: None)  # none of the records has a unit
    assert synced.names == ["consumequeue/T/0/00000000000000000000"]
    units = tmp_path / "consumequeue_ext" / "T" / "0"
    units.mkdir(parents=True)
    for start in (0, 500):
        (units / f"{start:020}").write_bytes(bytes(500))
    synced.names.clear()
    directories.clear()
    queues(1)
    syncing._round(True, lambda: None)
    assert synced.names == [
        "consumequeue/T/0/00000000000000000000",
        "consumequeue_ext/T/0/00000000000000000000",
        "consumequeue_ext/T/0/00000000000000000500",
    ]
    assert directories == [tmp_path, units.parent.parent, units.parent, units]
    synced.names.clear()
    directories.clear()
    queues(1)
    syncing._round(True, lambda: None)
    assert synced.names == ["consumequeue/T/0/00000000000000000000", "consumequeue_ext/T/0/00000000000000000500"]
    assert directories == []


def test_small_writes_wait_for_the_thorough_round(
    tmp_path: Path, queues: Callable[[int], int], syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = SyncedFiles(tmp_path, monkeypatch)
    queues(10)
    syncing._round(False, lambda: None)
    assert synced.names == []
    queues(410)
    syncing._round(False, lambda: None)
    assert len(synced.names) == 9
    assert not (tmp_path / "checkpoint").exists()


def test_fewer_pages_are_enough_as_soon_as_the_option_is_changed(
    tmp_path: Path, queues: Callable[[int], int], syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = SyncedFiles(tmp_path, monkeypatch)
    queues(250)
    syncing._round(False, lambda: None)
    assert synced.names == []
    change_config(syncing._config, {"flushConsumeQueueLeastPages": "1"})
    syncing._round(False, lambda: None)
    assert len(synced.names) == 5


def test_full_index_file_is_synced_at_once_and_moves_the_checkpoint(
    tmp_path: Path, syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = SyncedFiles(tmp_path, monkeypatch)
    (tmp_path / "index").mkdir(exist_ok=True)
    for number, end in ((1, 7000), (2, 9000), (3, 9500)):
        (tmp_path / "index" / f"2026010100000000{number}").write_bytes(bytes(8) + end.to_bytes(8, "big") + bytes(500))
    syncing._round(False, lambda: None)
    assert synced.names == ["index/20260101000000001", "index/20260101000000002"]
    assert read_checkpoint(tmp_path / "checkpoint").index_timestamp == 9000
    syncing.sync_all()
    assert synced.names[-1] == "index/20260101000000003"
    assert read_checkpoint(tmp_path / "checkpoint").index_timestamp == 9000


def test_checkpoint_is_never_written_after_a_failed_sync(
    tmp_path: Path, queues: Callable[[int], int], syncing: index_sync.IndexSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = queues(3)
    syncing._round(True, lambda: None)
    queues(3)
    abort = StorePaths(tmp_path).abort
    abort.write_text("of this boot")

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(index_sync.os, "fdatasync", fail)
        syncing._last_thorough_ms -= 3_600_000
        syncing.sync_if_due(lambda: None)
    assert abort.read_text() == ""
    with pytest.raises(SyncFailed):
        syncing.sync_all()
    assert read_checkpoint(tmp_path / "checkpoint").logics_timestamp == first


def test_last_round_of_the_role_writes_the_checkpoint(
    tmp_path: Path, queues: Callable[[int], int], start: Start
) -> None:
    role = start(small_config(tmp_path))
    timestamp = queues(5)
    role.stop()
    assert read_checkpoint(tmp_path / "checkpoint").logics_timestamp == timestamp
