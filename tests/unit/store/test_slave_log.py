from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.protocol.record import encode_record
from ipc.instance import Instance
from ipc.publish.housekeeper import HousekeeperPublisher
from store.commit_log.reader import CommitLogReader
from store.errors import HaError
from store.ha.slave_log import SlaveLog
from store.mapped_file import path_of, reserve_file
from support.damage import damage
from support.store_files import LOG_FILE_SIZE, LogBuilder, running_instance, small_config

FILES = 4


@pytest.fixture
def master(tmp_path: Path) -> LogBuilder:
    builder = LogBuilder(small_config(tmp_path / "master"))
    builder.append_many(600)
    return builder


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    (tmp_path / "slave").mkdir()
    with running_instance(tmp_path / "slave", allocated_offset=FILES * LOG_FILE_SIZE) as made:
        yield made


@pytest.fixture
def copy(tmp_path: Path, instance: Instance) -> Iterator[SlaveLog]:
    config = small_config(tmp_path / "slave")
    config.paths().make_directories()
    for number in range(FILES):
        reserve_file(path_of(config.paths().commit_log, number * LOG_FILE_SIZE), LOG_FILE_SIZE)
    made = SlaveLog(instance.control, config, config.paths())
    yield made
    made.close()


def take(copy: SlaveLog, offset: int, data: bytes) -> None:
    """A read with one frame."""
    copy.append(offset, data)
    copy.publish_complete()


def log_of(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))


@pytest.mark.parametrize("piece", [7, 100, 491, 492, 493, 32768])
def test_log_equals_the_masters_however_frames_are_split(
    tmp_path: Path, master: LogBuilder, instance: Instance, copy: SlaveLog, piece: int
) -> None:
    data = log_of(master.paths.root)[: master.offset]
    ends = {record.physical_offset + record.size_bytes for record in master.written} | {
        0,
        LOG_FILE_SIZE,
        2 * LOG_FILE_SIZE,
    }
    offset = 0
    while offset < len(data):
        end = min(offset + piece, len(data), offset - offset % LOG_FILE_SIZE + LOG_FILE_SIZE)
        take(copy, offset, data[offset:end])
        offset = end
        assert copy.copied_offset == offset
        assert instance.control.wrote_offset in ends
        assert instance.control.wrote_offset <= offset <= instance.control.append_limit
    assert instance.control.wrote_offset == master.offset
    assert instance.control.wrote_timestamp == master.written[-1].store_timestamp
    assert log_of(tmp_path / "slave")[: master.offset] == data


def test_frame_that_does_not_begin_at_the_end_of_the_log_is_refused(copy: SlaveLog) -> None:
    with pytest.raises(
        HaError,
        match=r"master sent 5, local log ends at 0; .* save its store, and replace it with a copy of the master's",
    ):
        take(copy, 5, b"x")


@pytest.mark.parametrize(
    "data", [b"no record at all", bytes(100), (10**6).to_bytes(4, "big") + bytes.fromhex("daa320a7")]
)
def test_invalid_records_are_refused_and_never_published(instance: Instance, copy: SlaveLog, data: bytes) -> None:
    with pytest.raises(HaError, match="an invalid record at offset 0"):
        take(copy, 0, data)
    assert instance.control.wrote_offset == 0


def test_record_with_another_physical_offset_is_refused(instance: Instance, copy: SlaveLog) -> None:
    with pytest.raises(HaError, match="contains a different physical offset"):
        take(copy, 0, encode_record(topic="T", body=b"b", physical_offset=999))
    assert instance.control.wrote_offset == 0


def test_partial_record_is_wiped_before_the_log_continues(
    tmp_path: Path, master: LogBuilder, instance: Instance, copy: SlaveLog
) -> None:
    data = log_of(master.paths.root)
    second = master.written[1]
    take(copy, 0, data[: second.physical_offset + 50])
    assert (copy.wrote_offset, copy.copied_offset) == (second.physical_offset, second.physical_offset + 50)
    restarted = SlaveLog(instance.control, small_config(tmp_path / "slave"), small_config(tmp_path / "slave").paths())
    restarted.start_over()
    assert restarted.copied_offset == second.physical_offset
    assert not log_of(tmp_path / "slave")[second.physical_offset :].strip(b"\0")
    take(restarted, second.physical_offset, data[second.physical_offset : second.physical_offset + second.size_bytes])
    assert instance.control.wrote_offset == second.physical_offset + second.size_bytes
    restarted.close()


def test_empty_log_begins_at_the_masters_offset(instance: Instance, copy: SlaveLog) -> None:
    begin = 2 * LOG_FILE_SIZE
    copy.request_file(begin)
    assert instance.control.requested_offset == begin
    assert not copy.has_begun_at(begin)
    HousekeeperPublisher(instance.control).min_offset(begin)
    assert copy.has_begun_at(begin)
    copy.begin_at(begin)
    assert (instance.control.wrote_offset, instance.control.requested_offset) == (begin, -1)


def test_log_cannot_begin_in_the_middle_of_a_file(copy: SlaveLog) -> None:
    with pytest.raises(HaError, match="in the middle of a file"):
        copy.request_file(LOG_FILE_SIZE + 1)


@pytest.mark.parametrize("piece", [100, 492, 32768])
@pytest.mark.parametrize(("number", "length"), [(5, 60), (5, 4096), (60, 4096)])
def test_slave_lacks_only_the_damaged_records_of_its_master(
    tmp_path: Path, master: LogBuilder, instance: Instance, copy: SlaveLog, piece: int, number: int, length: int
) -> None:
    start = master.written[number].physical_offset
    damage(master.paths.commit_log, LOG_FILE_SIZE, start, min(length, LOG_FILE_SIZE - start % LOG_FILE_SIZE))
    data = log_of(master.paths.root)[: master.offset]
    for offset in range(0, len(data), piece):
        # A frame never crosses the end of a file.
        for begin, end in _within_files(offset, min(offset + piece, len(data))):
            take(copy, begin, data[begin:end])
    assert instance.control.wrote_offset == master.offset
    assert log_of(tmp_path / "slave")[: master.offset] == data


def test_damage_up_to_the_end_of_a_file_is_skipped_at_the_next_file(
    tmp_path: Path, master: LogBuilder, instance: Instance, copy: SlaveLog
) -> None:
    start = master.written[20].physical_offset
    damage(master.paths.commit_log, LOG_FILE_SIZE, start, LOG_FILE_SIZE - start)
    data = log_of(master.paths.root)[: master.offset]
    for begin, end in _within_files(0, len(data)):
        take(copy, begin, data[begin:end])
    assert instance.control.wrote_offset == master.offset
    assert log_of(tmp_path / "slave")[: master.offset] == data


def test_damage_at_the_start_of_a_connection_is_refused(master: LogBuilder, instance: Instance, copy: SlaveLog) -> None:
    data = log_of(master.paths.root)
    first = master.written[4].physical_offset
    take(copy, 0, data[:first])
    copy.start_over()
    with pytest.raises(HaError, match=f"an invalid record at offset {first}"):
        take(copy, first, bytes(60) + data[first + 60 : first + 5000])
    assert instance.control.wrote_offset == first


def test_release_deleted_unmaps_files_below_the_minimum_of_the_log(
    tmp_path: Path, master: LogBuilder, instance: Instance, copy: SlaveLog
) -> None:
    data = log_of(master.paths.root)[: master.offset]
    for begin, end in _within_files(0, len(data)):
        take(copy, begin, data[begin:end])
    config = small_config(tmp_path / "slave")
    reader = CommitLogReader(config.paths(), config, instance.control)
    assert reader.record_at(0) is not None
    HousekeeperPublisher(instance.control).min_offset(LOG_FILE_SIZE)
    path = path_of(config.paths().commit_log, 0)
    path.unlink()
    assert str(path) in Path("/proc/self/maps").read_text()
    copy.release_deleted()
    reader.release_deleted()
    assert str(path) not in Path("/proc/self/maps").read_text()
    reader.close()


def _within_files(begin: int, end: int) -> Iterator[tuple[int, int]]:
    while begin < end:
        limit = min(end, begin - begin % LOG_FILE_SIZE + LOG_FILE_SIZE)
        yield begin, limit
        begin = limit
