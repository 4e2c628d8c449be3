from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from store.commit_log.reader import CommitLogReader
from store.errors import CorruptRecord
from store.mapped_file import path_of
from support.store_files import LOG_FILE_SIZE, LogBuilder, small_config


@pytest.fixture
def built(tmp_path: Path) -> LogBuilder:
    builder = LogBuilder(small_config(tmp_path))
    builder.append_many(400)
    return builder


@pytest.fixture
def control(built: LogBuilder) -> SimpleNamespace:
    return SimpleNamespace(min_offset=0, wrote_offset=built.offset)


@pytest.fixture
def reader(built: LogBuilder, control: SimpleNamespace) -> Iterator[CommitLogReader]:
    reader = CommitLogReader(built.paths, built.config, control)
    yield reader
    reader.close()


def test_every_record_is_read_at_its_offset(built: LogBuilder, reader: CommitLogReader) -> None:
    for record in built.written:
        assert len(reader.record_at(record.physical_offset)) == record.size_bytes
        assert reader.record_size_at(record.physical_offset) == record.size_bytes
        assert reader.store_timestamp_at(record.physical_offset, record.size_bytes) == record.store_timestamp


def test_unpublished_records_are_not_read(built: LogBuilder, reader: CommitLogReader, control: SimpleNamespace) -> None:
    last = built.written[-1]
    control.wrote_offset = last.physical_offset
    assert reader.record_at(last.physical_offset) is None
    assert reader.read(last.physical_offset - 10, 11) is None
    assert len(reader.read(last.physical_offset - 10, 10)) == 10
    assert reader.store_timestamp_at(last.physical_offset, last.size_bytes) == -1


def test_deleted_records_are_not_read(built: LogBuilder, reader: CommitLogReader, control: SimpleNamespace) -> None:
    control.min_offset = LOG_FILE_SIZE
    assert reader.record_at(0) is None
    assert reader.read_on(LOG_FILE_SIZE - 1) is None
    assert reader.record_at(LOG_FILE_SIZE) is not None


def test_read_never_crosses_files(reader: CommitLogReader) -> None:
    assert reader.read(LOG_FILE_SIZE - 10, 10) is not None
    assert reader.read(LOG_FILE_SIZE - 10, 11) is None
    assert len(reader.read_on(LOG_FILE_SIZE - 10)) == 10


def test_blank_is_not_a_record(built: LogBuilder, reader: CommitLogReader) -> None:
    before = max(one.physical_offset + one.size_bytes for one in built.written if one.physical_offset < LOG_FILE_SIZE)
    assert reader.record_at(before) is None


def test_published_bytes_that_are_not_a_record_raise_corrupt_record(built: LogBuilder, reader: CommitLogReader) -> None:
    with pytest.raises(CorruptRecord, match="no valid record at physical offset 7: no magic code"):
        reader.record_at(7)
    with path_of(built.paths.commit_log, 0).open("r+b") as file:
        file.write((100_000).to_bytes(4, "big"))
    with pytest.raises(CorruptRecord, match="lengths do not add up"):
        reader.record_at(0)


def test_store_timestamp_requires_the_given_number_of_readable_bytes(
    built: LogBuilder, reader: CommitLogReader
) -> None:
    assert reader.store_timestamp_at(0, 2 * 4096) == built.written[0].store_timestamp
    assert reader.store_timestamp_at(0, LOG_FILE_SIZE + 1) == -1


def test_slice_stays_readable_after_its_file_is_deleted(
    built: LogBuilder, reader: CommitLogReader, control: SimpleNamespace
) -> None:
    data = reader.record_at(0)
    before = bytes(data)
    control.min_offset = LOG_FILE_SIZE
    path_of(built.paths.commit_log, 0).unlink()
    assert reader.record_at(LOG_FILE_SIZE) is not None
    assert reader.record_at(0) is None
    assert bytes(data) == before
