from pathlib import Path

import pytest

from store.checkpoint import FILE_SIZE, Checkpoint, read_checkpoint, write_checkpoint


def test_written_checkpoint_is_read(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "checkpoint", Checkpoint(1, 2, 3))
    assert read_checkpoint(tmp_path / "checkpoint") == Checkpoint(1, 2, 3)


def test_checkpoint_file_has_rocketmqs_length_and_order(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "checkpoint", Checkpoint(1, 2, 3))
    data = (tmp_path / "checkpoint").read_bytes()
    assert len(data) == FILE_SIZE
    assert data[:24] == bytes(7) + b"\x01" + bytes(7) + b"\x02" + bytes(7) + b"\x03"
    assert not data[24:].strip(b"\0")


def test_fields_of_rocketmq_5_after_the_timestamps_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(bytes(24) + b"\x11" * 16 + bytes(FILE_SIZE - 40))
    write_checkpoint(path, Checkpoint(1, 2, 3))
    assert path.read_bytes()[24:40] == b"\x11" * 16


@pytest.mark.parametrize("data", [None, b"", b"\1" * 23], ids=["missing", "empty", "short"])
def test_missing_or_short_checkpoint_is_read_as_zeros(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "checkpoint").write_bytes(data)
    assert read_checkpoint(tmp_path / "checkpoint") == Checkpoint(0, 0, 0)


def test_min_timestamp_is_the_older_of_log_and_queues_minus_three_seconds() -> None:
    assert Checkpoint(10_000, 20_000, 0).min_timestamp == 7_000
    assert Checkpoint(20_000, 9_000, 0).min_timestamp == 6_000
    assert Checkpoint(1_000, 1_000, 0).min_timestamp == 0
