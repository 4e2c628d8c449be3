"""The next whole record behind damage."""

import ctypes
import os
from pathlib import Path

import pytest

from store.commit_log.next_record import find_next_record
from store.mapped_file import MappedFile, path_of
from support.store_files import LOG_FILE_SIZE, LogBuilder, Written, small_config


class Log:
    """One file of records."""

    def __init__(self, root: Path) -> None:
        self.builder = LogBuilder(small_config(root))
        self.builder.append_many(100)
        self.path = path_of(self.builder.paths.commit_log, 0)

    @property
    def records(self) -> list[Written]:
        return self.builder.written

    def damage(self, begin: int, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(begin)
            file.write(data)

    def find(self, position: int, limit: int = LOG_FILE_SIZE) -> int:
        file = MappedFile(self.path, 0, LOG_FILE_SIZE, writable=False, size_option="mappedFileSizeCommitLog")
        try:
            return find_next_record(file, position, limit, check_crc=True)
        finally:
            file.close()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_intact_record_is_found_at_its_start_and_from_within_the_previous_one(log: Log) -> None:
    for before, record in zip(log.records, log.records[1:], strict=False):
        assert log.find(record.physical_offset) == record.physical_offset
        assert log.find(before.physical_offset + 1) == record.physical_offset


def test_damaged_records_are_skipped(log: Log) -> None:
    begin = log.records[10].physical_offset + 7
    log.damage(begin, b"\xda\xa3\x20\xa7" * 1024)  # magic codes, and no record
    behind = next(one for one in log.records if one.physical_offset >= begin + 4096)
    assert log.find(begin) == behind.physical_offset


def test_record_that_ends_beyond_the_limit_is_not_found(log: Log) -> None:
    last = log.records[-1]
    end = last.physical_offset + last.size_bytes
    assert log.find(last.physical_offset, end) == last.physical_offset
    assert log.find(last.physical_offset, end - 1) == -1


def test_nothing_is_found_after_the_last_record(log: Log) -> None:
    assert log.find(log.builder.offset) == -1
    assert log.find(LOG_FILE_SIZE) == -1


def test_nothing_beyond_the_mapping_is_read(log: Log) -> None:
    """Python 3.11.2, of Debian 12, ends with a segmentation fault if `mmap.find` searches a mapping to its end."""
    log.damage(log.builder.offset, b"\xda" * (LOG_FILE_SIZE - log.builder.offset))
    files = [MappedFile(log.path, 0, LOG_FILE_SIZE, writable=True) for _ in range(64)]
    addresses = {address(file): file for file in files}
    try:
        # Linux places a mapping below the one before it, unless it fits into a gap.
        end, file = next((at, addresses[at - LOG_FILE_SIZE]) for at in addresses if at - LOG_FILE_SIZE in addresses)
        addresses[end].close()
        assert find_next_record(file, log.builder.offset, LOG_FILE_SIZE, check_crc=True) == -1
    finally:
        for one in files:
            one.close()


def address(file: MappedFile) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(file.map))


def test_record_behind_a_hole_is_found(log: Log) -> None:
    kept = log.records[-1]
    data = log.path.read_bytes()
    log.path.unlink()
    with log.path.open("wb") as file:
        os.truncate(file.fileno(), LOG_FILE_SIZE)
        file.seek(kept.physical_offset)
        file.write(data[kept.physical_offset : kept.physical_offset + kept.size_bytes])
    assert log.find(0) == kept.physical_offset
