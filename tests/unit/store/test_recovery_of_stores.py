import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ipc.instance import Instance
from store.checkpoint import Checkpoint, write_checkpoint
from store.commit_log import tail
from store.errors import BadStoreConfig, UnexpectedFile, WrongFileLength
from store.mapped_file import path_of, reserve_file
from store.mapped_file_queue import MappedFileQueue
from store.recovery import daemon, shared_work
from store.recovery.discarded_records import Discarded, find_discarded
from store.recovery.recover import Recovered, recover
from support.store_files import (
    FIRST_TIMESTAMP,
    LOG_FILE_SIZE,
    QUEUE_FILE_SIZE,
    LogBuilder,
    RunningRole,
    Written,
    entries_of,
    put_entry,
    running_instance,
    small_config,
)

LONG_AFTER = FIRST_TIMESTAMP + 10**9


@pytest.fixture(params=["one process", "several"], autouse=True)
def processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues are read by one process, or by as many as there are cores, as in a store of thousands of queues."""
    if request.param == "several":
        monkeypatch.setattr(shared_work, "FEWEST", 1)


@pytest.fixture
def builder(tmp_path: Path) -> LogBuilder:
    """Eight hundred records of four queues in four files, all dispatched, after a clean stop."""
    builder = LogBuilder(small_config(tmp_path))
    builder.append_many(800)
    assert builder.offset > 3 * LOG_FILE_SIZE
    builder.write_queues()
    write_checkpoint(builder.paths.checkpoint, Checkpoint(LONG_AFTER, LONG_AFTER, 0))
    return builder


def crashed(builder: LogBuilder, checkpoint: int = 0) -> None:
    builder.paths.abort.touch()
    write_checkpoint(builder.paths.checkpoint, Checkpoint(checkpoint, checkpoint, 0))


def recovered(builder: LogBuilder, **settings: object) -> Recovered:
    return recover(small_config(builder.paths.root, **settings), builder.paths)


def damage(builder: LogBuilder, offset: int, data: bytes) -> None:
    start = offset - offset % LOG_FILE_SIZE
    with path_of(builder.paths.commit_log, start).open("r+b") as file:
        file.seek(offset - start)
        file.write(data)


def bytes_at(builder: LogBuilder, offset: int, length: int) -> bytes:
    data = b"".join(path.read_bytes() for path in sorted(builder.paths.commit_log.iterdir()))
    return data[offset : offset + length]


def entries(builder: LogBuilder) -> dict[tuple[str, int], list[tuple[int, int]]]:
    queues = sorted({(record.topic, record.queue_id) for record in builder.written})
    return {queue: [entry[:2] for entry in entries_of(builder.paths, *queue)] for queue in queues}


def expected_entries(records: list[Written]) -> dict[tuple[str, int], list[tuple[int, int]]]:
    queues: dict[tuple[str, int], list[tuple[int, int]]] = {("T", 0): [], ("T", 1): [], ("U", 0): [], ("U", 1): []}
    for record in records:
        queues[record.topic, record.queue_id].append((record.physical_offset, record.size_bytes))
    return queues


# ---- the log


def test_empty_store_begins_at_zero(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    found = recover(config, config.paths())
    assert (found.min_offset, found.wrote_offset, found.allocated_offset, found.reput_offset) == (0, 0, 0, 0)


def test_recovery_after_a_clean_stop_changes_nothing(builder: LogBuilder) -> None:
    found = recovered(builder)
    assert found.is_clean
    assert found.wrote_offset == found.reput_offset == builder.offset
    assert found.wrote_timestamp == builder.written[-1].store_timestamp
    assert entries(builder) == expected_entries(builder.written)


def test_log_whose_oldest_files_were_deleted_begins_above_0(builder: LogBuilder) -> None:
    path_of(builder.paths.commit_log, 0).unlink()
    found = recovered(builder)
    assert (found.min_offset, found.wrote_offset, found.reput_offset) == (LOG_FILE_SIZE, builder.offset, builder.offset)


@pytest.mark.parametrize("is_clean", [True, False])
def test_torn_record_at_the_end_is_wiped(builder: LogBuilder, is_clean: bool) -> None:
    if not is_clean:
        crashed(builder)
    last = builder.written[-1]
    damage(builder, last.physical_offset + 200, bytes(last.size_bytes - 200))
    found = recovered(builder)
    assert found.wrote_offset == last.physical_offset
    assert not bytes_at(builder, last.physical_offset, LOG_FILE_SIZE).strip(b"\0")
    assert entries(builder) == expected_entries(builder.written[:-1])


def test_records_beyond_a_hole_are_discarded(builder: LogBuilder) -> None:
    """What a power cut leaves when a later page reached the disk and an earlier one did not."""
    crashed(builder)
    hole, after = builder.written[-5], builder.written[-4]
    whole = bytes_at(builder, after.physical_offset, after.size_bytes)
    damage(builder, hole.physical_offset, bytes(hole.size_bytes))
    assert recovered(builder).wrote_offset == hole.physical_offset
    assert bytes_at(builder, after.physical_offset, after.size_bytes) == bytes(len(whole))
    # A new record of the hole's size would have led to them.
    assert recovered(builder).wrote_offset == hole.physical_offset


@pytest.mark.parametrize("is_clean", [True, False])
def test_discarded_records_are_reported_before_they_are_wiped(
    builder: LogBuilder, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Damage near the end costs whole records behind it: how many, and which, an operator must be able to see."""
    if not is_clean:
        crashed(builder)
    hole = builder.written[-338]
    damage(builder, hole.physical_offset + 3, b"x" * (hole.size_bytes - 3))
    found: list[Discarded] = []
    config = small_config(builder.paths.root)
    assert recover(config, builder.paths, report=found.append).wrote_offset == hole.physical_offset
    first, last = builder.written[-337].physical_offset, builder.written[-1].physical_offset
    assert found == [Discarded(337, first, last)]
    [line] = [one for one in caplog.records if one.levelname == "WARNING" and "discarded" in one.message]
    assert f"records=337 first_offset={first} last_offset={last}" in line.message
    assert recover(config, builder.paths, report=found.append).wrote_offset == hole.physical_offset
    assert len(found) == 1


def test_torn_record_at_the_end_is_not_reported(builder: LogBuilder) -> None:
    crashed(builder)
    last = builder.written[-1]
    damage(builder, last.physical_offset + 200, bytes(last.size_bytes - 200))
    found: list[Discarded] = []
    recover(small_config(builder.paths.root), builder.paths, report=found.append)
    assert found == []


def test_reserved_bytes_that_were_read_are_not_searched_for_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup reads whole files; their zeros are then in memory, and look like data to whoever asks for the holes."""
    size = 64 << 20
    for number in range(2):
        path = path_of(tmp_path, number * size)
        reserve_file(path, size)
        assert not any(path.read_bytes())
    read = 0

    def counted(fd: int, count: int, position: int) -> bytes:
        nonlocal read
        data = pread(fd, count, position)
        read += len(data)
        return data

    pread = os.pread
    monkeypatch.setattr("store.commit_log.next_record.os.pread", counted)
    log = MappedFileQueue(tmp_path, size)
    log.refresh()
    assert find_discarded(log, 0, check_crc=True) == Discarded()
    log.close()
    assert read < size, "more than what the kernel reads ahead at the begin of each file"


def test_restarted_role_counts_discarded_records_once(builder: LogBuilder) -> None:
    crashed(builder)
    hole = builder.written[-5]
    damage(builder, hole.physical_offset, bytes(hole.size_bytes))
    whole = {path: path.read_bytes() for path in builder.paths.commit_log.iterdir()}
    config = small_config(builder.paths.root)
    with running_instance(builder.paths.root) as instance:
        instance.bells["recover"] = instance.bells["flush"]  # nobody rings it; a context wants one here
        for _ in range(2):
            for path, data in whole.items():  # killed before anything was wiped
                path.write_bytes(data)
            RunningRole(instance, "recover", lambda context: daemon.run(context, config, builder.paths)).close()
        del instance.bells["recover"]
        expected = (4, builder.written[-4].physical_offset, builder.written[-1].physical_offset)
        counted = instance.read_counters()["recover"]
        assert tuple(counted[name] for name in daemon.COUNTERS) == expected


def test_records_of_a_former_use_of_the_file_are_ignored(builder: LogBuilder) -> None:
    crashed(builder)
    old = builder.written[10]
    damage(builder, builder.offset, bytes_at(builder, old.physical_offset, old.size_bytes))
    assert recovered(builder).wrote_offset == builder.offset


def test_preallocated_files_are_kept_and_wiped(builder: LogBuilder) -> None:
    crashed(builder)
    end = 5 * LOG_FILE_SIZE
    path_of(builder.paths.commit_log, end - LOG_FILE_SIZE).write_bytes(b"\x11" * LOG_FILE_SIZE)
    found = recovered(builder)
    assert (found.wrote_offset, found.allocated_offset) == (builder.offset, end)
    assert not bytes_at(builder, builder.offset, end).strip(b"\0")


def test_log_can_end_with_its_file(tmp_path: Path) -> None:
    builder = LogBuilder(small_config(tmp_path))
    builder.append_many(3)
    builder.write((LOG_FILE_SIZE - builder.offset).to_bytes(4, "big") + bytes.fromhex("cbd43194"))
    assert recovered(builder).wrote_offset == LOG_FILE_SIZE


def test_flipped_bit_is_kept_without_the_crc_check(builder: LogBuilder) -> None:
    last = builder.written[-1]
    damage(builder, last.physical_offset + 90, b"X")
    assert recovered(builder, check_crc_on_recover=False).wrote_offset == builder.offset
    assert recovered(builder).wrote_offset == last.physical_offset


def test_files_covered_by_the_checkpoint_are_not_read_after_a_crash(builder: LogBuilder) -> None:
    """A flipped bit in the first file is found only when the first file is read."""
    damage(builder, builder.written[3].physical_offset + 90, b"X")
    crashed(builder, checkpoint=builder.written[-1].store_timestamp)
    assert recovered(builder).wrote_offset == builder.offset
    crashed(builder, checkpoint=0)
    assert recovered(builder).wrote_offset == builder.written[3].physical_offset


# ---- after a clean stop that left all as expected


@pytest.fixture
def closed(builder: LogBuilder) -> LogBuilder:
    """The same store with the checkpoint that a clean stop writes last."""
    close(builder)
    return builder


def close(builder: LogBuilder) -> None:
    last = max(record.store_timestamp for record in builder.written)
    write_checkpoint(builder.paths.checkpoint, Checkpoint(last, last, 0))


def unseen_flaw(builder: LogBuilder) -> int:
    """Flips a bit in one of the last three files, which is found only if that is read."""
    flawed = next(record for record in builder.written if record.physical_offset > 2 * LOG_FILE_SIZE)
    damage(builder, flawed.physical_offset + 90, b"X")
    return flawed.physical_offset


def test_log_is_read_from_its_last_dispatched_record_after_a_clean_stop(closed: LogBuilder) -> None:
    unseen_flaw(closed)
    found = recovered(closed)
    assert (found.is_clean, found.wrote_offset, found.reput_offset) == (True, closed.offset, closed.offset)
    assert found.wrote_timestamp == found.reput_timestamp == closed.written[-1].store_timestamp
    assert entries(closed) == expected_entries(closed.written)


def test_records_after_the_last_dispatched_one_are_dispatched(closed: LogBuilder) -> None:
    unseen_flaw(closed)
    before = closed.offset
    last = closed.append("T", 0)
    closed.append("T", 0)
    assert recovered(closed).wrote_offset == closed.offset
    assert recovered(closed).reput_offset == last.physical_offset == before


def test_bytes_after_the_end_are_wiped_even_if_little_was_read(closed: LogBuilder) -> None:
    damage(closed, closed.offset + 10_000, b"left here by RocketMQ")
    assert recovered(closed).wrote_offset == closed.offset
    assert not bytes_at(closed, closed.offset, LOG_FILE_SIZE).strip(b"\0")


def _with_an_older_checkpoint(builder: LogBuilder) -> None:
    timestamp = builder.written[-2].store_timestamp
    write_checkpoint(builder.paths.checkpoint, Checkpoint(timestamp, timestamp, 0))


def _without_a_checkpoint(builder: LogBuilder) -> None:
    builder.paths.checkpoint.unlink()


def _with_a_stale_entry(builder: LogBuilder) -> None:
    last = [record for record in builder.written if (record.topic, record.queue_id) == ("T", 0)][-1]
    stale = builder.written[-3]
    put_entry(builder.paths, Written("T", 0, last.queue_offset + 1, stale.physical_offset - 7, 50, 0))
    close(builder)  # after the file that this may have made


def _with_a_stale_record_and_its_entry(builder: LogBuilder) -> None:
    """Both whole and in agreement, beyond the end: what RocketMQ leaves when it has cut a log and written less anew."""
    end, written = builder.offset, len(builder.written)
    hole = builder.append("U", 1)
    stale = builder.append("U", 1)
    put_entry(builder.paths, stale)
    damage(builder, hole.physical_offset, bytes(hole.size_bytes))
    builder.offset = end
    del builder.written[written:]


def _with_a_queue_deleted_by_hand(builder: LogBuilder) -> None:
    for path in builder.paths.queue("T", 1).iterdir():
        path.unlink()
    later = builder.paths.checkpoint.stat().st_mtime_ns + 1
    os.utime(builder.paths.queue("T", 1), ns=(later, later))


@pytest.mark.parametrize(
    "change",
    [
        _with_an_older_checkpoint,
        _without_a_checkpoint,
        _with_a_stale_entry,
        _with_a_stale_record_and_its_entry,
        _with_a_queue_deleted_by_hand,
    ],
)
def test_any_trace_of_an_unclean_stop_causes_a_full_scan_of_the_last_files(
    closed: LogBuilder, change: Callable[[LogBuilder], None]
) -> None:
    change(closed)
    assert recovered(closed).wrote_offset == closed.offset
    close(closed)
    change(closed)
    flawed = unseen_flaw(closed)
    assert recovered(closed).wrote_offset == flawed


def test_torn_last_dispatched_record_causes_a_full_scan(closed: LogBuilder) -> None:
    flawed = unseen_flaw(closed)
    damage(closed, closed.written[-1].physical_offset + 90, b"X")
    assert recovered(closed).wrote_offset == flawed


# ---- what ends the start, with nothing changed


def test_recovery_fails_on_a_log_file_of_another_length(builder: LogBuilder) -> None:
    path = path_of(builder.paths.commit_log, LOG_FILE_SIZE)
    os.truncate(path, 100)
    before = {path: path.read_bytes() for path in builder.paths.root.rglob("*") if path.is_file()}
    with pytest.raises(WrongFileLength, match=f"{path} has 100 bytes, but mappedFileSizeCommitLog="):
        recovered(builder)
    assert before == {path: path.read_bytes() for path in builder.paths.root.rglob("*") if path.is_file()}


def test_recovery_fails_on_a_queue_file_of_another_length_before_changing_the_log(builder: LogBuilder) -> None:
    damage(builder, builder.offset, b"dirt")
    os.truncate(path_of(builder.paths.queue("T", 0), 0), 99)
    with pytest.raises(WrongFileLength, match="mappedFileSizeConsumeQueue=1000"):
        recovered(builder)
    assert bytes_at(builder, builder.offset, 4) == b"dirt"


def test_recovery_fails_on_a_missing_log_file(builder: LogBuilder) -> None:
    path_of(builder.paths.commit_log, LOG_FILE_SIZE).unlink()
    with pytest.raises(UnexpectedFile, match="restore 00000000000000131072,"):
        recovered(builder)


def test_recovery_fails_on_invalid_settings(builder: LogBuilder) -> None:
    with pytest.raises(BadStoreConfig, match="flushDiskType"):
        recovered(builder, flush_disk_type="NEVER")


# ---- ConsumeQueues


@pytest.mark.parametrize("is_clean", [True, False])
def test_entries_of_discarded_records_are_truncated(builder: LogBuilder, is_clean: bool) -> None:
    if not is_clean:
        crashed(builder)
    damage(builder, builder.written[300].physical_offset, bytes(8))
    if is_clean:
        path_of(builder.paths.commit_log, 0).unlink()  # else the survey would not read so far back
    found = recovered(builder)
    assert found.wrote_offset == builder.written[300].physical_offset
    assert entries(builder) == expected_entries(builder.written[:300])
    assert {path.stat().st_size for path in builder.paths.consume_queue.glob("*/*/*")} == {QUEUE_FILE_SIZE}


def test_truncated_queues_contain_nothing_after_their_end(builder: LogBuilder) -> None:
    crashed(builder)
    damage(builder, builder.written[300].physical_offset, bytes(8))
    recovered(builder)
    for topic, queue_id in entries(builder):
        data = b"".join(path.read_bytes() for path in sorted(builder.paths.queue(topic, queue_id).iterdir()))
        assert not data[20 * len(entries_of(builder.paths, topic, queue_id)) :].strip(b"\0")


def test_all_entries_are_truncated_without_a_log(builder: LogBuilder) -> None:
    for path in builder.paths.commit_log.iterdir():
        path.unlink()
    found = recovered(builder)
    assert (found.wrote_offset, found.reput_offset) == (0, 0)
    assert not list(builder.paths.consume_queue.glob("*/*/*"))


def test_entries_that_disagree_with_the_log_are_truncated_after_a_crash(builder: LogBuilder) -> None:
    crashed(builder)
    wrong = next(record for record in builder.written[400:] if (record.topic, record.queue_id) == ("U", 1))
    put_entry(builder.paths, Written("U", 1, wrong.queue_offset, wrong.physical_offset + 1, 77, 0))
    found = recovered(builder)
    assert len(entries_of(builder.paths, "U", 1)) == wrong.queue_offset
    assert found.reput_offset <= wrong.physical_offset


def test_entry_torn_between_sectors_is_truncated_after_a_crash(tmp_path: Path) -> None:
    """Entry 204 of a file lies on both sides of byte 4096, the end of a sector; its second half may never have reached the disk."""
    config = small_config(tmp_path, mapped_file_size_consume_queue=20 * 1000)
    builder = LogBuilder(config)
    for _ in range(205):
        builder.append()
    directory = builder.paths.queue("T", 0)
    directory.mkdir(parents=True)
    file = bytearray(20_000)
    for record in builder.written:
        entry = record.physical_offset.to_bytes(8, "big") + record.size_bytes.to_bytes(4, "big") + b"\7" * 8
        file[20 * record.queue_offset : 20 * record.queue_offset + 20] = entry
    file[4096:] = bytes(20_000 - 4096)
    path_of(directory, 0).write_bytes(file[:20_000].ljust(20_000, b"\0"))
    crashed(builder)
    recover(config, builder.paths)
    assert len(entries_of(builder.paths, "T", 0)) == 204


def test_entries_that_rocketmq_left_after_the_end_are_truncated(builder: LogBuilder) -> None:
    """Its cut moves positions in memory only; new entries in front of the old ones make these look valid again."""
    last = [record for record in builder.written if (record.topic, record.queue_id) == ("T", 0)][-1]
    stale = builder.written[-3]
    for number in range(1, 4):
        put_entry(builder.paths, Written("T", 0, last.queue_offset + number, stale.physical_offset - 7, 50, 0))
    found = recovered(builder)
    assert entries(builder) == expected_entries(builder.written)
    assert found.is_clean
    assert found.reput_offset <= builder.offset


def test_unexpected_files_among_topics_and_queues_are_ignored(builder: LogBuilder) -> None:
    (builder.paths.consume_queue / "a file").write_bytes(b"x")
    (builder.paths.consume_queue / "T" / "no number").mkdir()
    assert recovered(builder).wrote_offset == builder.offset


def test_queue_is_truncated_at_a_gap_between_its_files(builder: LogBuilder) -> None:
    crashed(builder)
    path_of(builder.paths.queue("T", 0), QUEUE_FILE_SIZE).unlink()
    found = recovered(builder)
    first_lost = [record for record in builder.written if (record.topic, record.queue_id) == ("T", 0)][50]
    assert len(entries_of(builder.paths, "T", 0)) == 50
    assert found.reput_offset <= first_lost.physical_offset


def test_queue_that_lost_its_first_file_in_a_crash_is_truncated_completely(builder: LogBuilder) -> None:
    crashed(builder)
    path_of(builder.paths.queue("T", 0), 0).unlink()
    found = recovered(builder)
    assert list(builder.paths.queue("T", 0).iterdir()) == []
    assert found.reput_offset == 0


def test_queue_with_expired_first_files_keeps_entries_covered_by_the_checkpoint(builder: LogBuilder) -> None:
    crashed(builder, checkpoint=builder.written[-1].store_timestamp)
    path_of(builder.paths.queue("T", 0), 0).unlink()
    recovered(builder)
    assert sorted(int(path.name) for path in builder.paths.queue("T", 0).iterdir()) == [1000, 2000, 3000]


# ---- from where dispatch goes on


def test_dispatch_begins_with_the_first_file_read_after_a_crash(builder: LogBuilder) -> None:
    crashed(builder, checkpoint=builder.written[600].store_timestamp)
    third = next(record for record in builder.written if record.physical_offset >= 2 * LOG_FILE_SIZE)
    assert third.store_timestamp < builder.written[600].store_timestamp - 3000
    assert recovered(builder).reput_offset == 2 * LOG_FILE_SIZE


def test_records_without_an_entry_are_dispatched_again_after_a_clean_stop(tmp_path: Path) -> None:
    builder = LogBuilder(small_config(tmp_path))
    builder.append_many(800)
    lost = [record for record in builder.written if (record.topic, record.queue_id) == ("U", 1)][-3]
    builder.write_queues(lambda one: (one.topic, one.queue_id) != ("U", 1) or one.queue_offset < lost.queue_offset)
    assert recovered(builder).reput_offset == lost.physical_offset


def test_lost_entries_of_a_queue_are_searched_in_older_log_files(builder: LogBuilder) -> None:
    for path in builder.paths.queue("T", 1).iterdir():
        path.unlink()
    first = next(record for record in builder.written if (record.topic, record.queue_id) == ("T", 1))
    assert first.physical_offset < LOG_FILE_SIZE
    assert recovered(builder).reput_offset == first.physical_offset


def test_records_of_deleted_topics_are_not_dispatched_again(builder: LogBuilder) -> None:
    for path in builder.paths.queue("U", 0).iterdir():
        path.unlink()
    builder.paths.config_file("topics.json").write_text(json.dumps({"topicConfigTable": {"T": {}}}))
    assert recovered(builder).reput_offset == builder.offset


def test_prepared_messages_need_no_queue_entry(tmp_path: Path) -> None:
    builder = LogBuilder(small_config(tmp_path))
    builder.append()
    builder.append(sys_flag=4)
    builder.append(sys_flag=12)
    builder.write_queues(lambda one: one.physical_offset == 0)
    assert recovered(builder).reput_offset == builder.offset


def test_everything_is_dispatched_again_without_queues(builder: LogBuilder) -> None:
    for path in builder.paths.consume_queue.glob("*/*/*"):
        path.unlink()
    builder.paths.config_file("topics.json").write_text(json.dumps({"topicConfigTable": {}}))
    assert recovered(builder).reput_offset == 0


def test_recreated_topic_keeps_its_new_entries(tmp_path: Path) -> None:
    """Its queue begins at 0 a second time; the old records lie before the last one that the queue knows."""
    builder = LogBuilder(small_config(tmp_path))
    builder.append_many(100)
    builder._next.clear()
    builder.append_many(20)
    for record in builder.written[100:]:
        put_entry(builder.paths, record)
    found = recovered(builder)
    assert found.reput_offset == builder.offset
    assert entries(builder) == expected_entries(builder.written[100:])


# ---- again and again


@pytest.mark.parametrize("point", ["recovery.surveyed", "tail.wiped", "recovery.wiped", "recovery.cut"])
def test_recovery_after_a_killed_recovery_gives_the_same_result(
    builder: LogBuilder, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed(builder)
    damage(builder, builder.written[700].physical_offset + 90, b"X")

    class Killed(BaseException):
        pass

    def die(name: str) -> None:
        if name == point:
            raise Killed

    from store.recovery import recover as module  # noqa: PLC0415

    with monkeypatch.context() as patched:
        patched.setattr(module, "fault_point", die)
        patched.setattr(tail, "fault_point", die)
        with pytest.raises(Killed):
            recovered(builder)
    found = recovered(builder)
    assert found.wrote_offset == builder.written[700].physical_offset
    assert entries(builder) == expected_entries(builder.written[:700])
    assert not bytes_at(builder, found.wrote_offset, 5 * LOG_FILE_SIZE).strip(b"\0")


# ---- the role


def test_recovery_role_initialises_every_cell(builder: LogBuilder) -> None:
    instance = Instance.create(builder.paths.root, queue_table_capacity=4)
    instance.bells["recover"] = instance.bells["flush"]  # nobody rings it; a context wants one here
    try:
        role = RunningRole(instance, "recover", lambda context: daemon.run(context, builder.config, builder.paths))
        role.stop()
        control = instance.control
        assert control.wrote_offset == control.flushed_offset == control.append_limit == builder.offset
        assert control.allocated_offset == 4 * LOG_FILE_SIZE
        assert control.wrote_timestamp == builder.written[-1].store_timestamp
        assert control.requested_offset == -1
        role.close()
    finally:
        del instance.bells["recover"]
        instance.unlink()
        instance.close()
