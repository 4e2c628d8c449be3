"""The parts of the timer index: wheel, files, checkpoint, recall handles, what is found in the log (docs/storage/timers.md)."""

import random
from pathlib import Path

import pytest

from broker.errors import ConfigFileUnreadable
from broker.timers.bucket_files import SPAN_MS, BucketFiles, bucket_of
from broker.timers.checkpoint import Checkpoint, CheckpointFile
from broker.timers.delivered_copies import Delivered, delivered_since
from broker.timers.entry import ENTRY, ENTRY_SIZE, due_of, pack
from broker.timers.recall_handle import RecallHandle
from broker.timers.wheel import Wheel
from headrace.protocol.record import encode_record
from headrace.protocol.record_layout import BLANK_MAGIC

NOW = 1_800_000_000_000


def entry(due_ms: int, physical_offset: int = 0, size: int = 100, cancels: bool = False) -> bytes:
    return pack(due_ms, physical_offset, size, cancels=cancels)


def drained(wheel: Wheel) -> list[bytes]:
    taken = []
    while (one := wheel.take()) is not None:
        taken.append(one)
    return taken


def test_wheel_returns_entries_in_the_order_of_their_times() -> None:
    chance = random.Random(7)
    entries = [entry(NOW + chance.randrange(5000), offset) for offset in range(500)]
    wheel = Wheel()
    for one in entries:
        wheel.add(one)
    assert len(wheel) == 500
    assert drained(wheel) == sorted(entries)
    assert not wheel


def test_wheel_accepts_entries_due_before_sorted_ones() -> None:
    wheel = Wheel()
    wheel.add(entry(NOW + 5000, 1))
    assert wheel.head() == entry(NOW + 5000, 1)
    for due, offset in ((NOW + 5001, 2), (NOW + 4999, 3), (NOW, 4), (NOW + 9000, 5)):
        wheel.add(entry(due, offset))
    assert [ENTRY.unpack(one)[1] for one in drained(wheel)] == [4, 3, 1, 2, 5]


def test_equal_entries_are_deduplicated() -> None:
    wheel = Wheel()
    for _ in range(2):
        wheel.add(entry(NOW, 1))
    assert wheel.head() is not None
    wheel.add(entry(NOW, 1))
    assert drained(wheel) == [entry(NOW, 1)]


def test_wheel_skips_unwritten_entries() -> None:
    wheel = Wheel()
    wheel.add_all(bytes(ENTRY_SIZE) + entry(NOW, 1) + bytes(ENTRY_SIZE) + entry(-5, 2))
    assert drained(wheel) == [entry(NOW, 1)]


def write(files: BucketFiles) -> None:
    files.begin_write()
    files.write()
    files.end_write()


def test_entries_are_read_from_the_file_of_their_ten_minutes(tmp_path: Path) -> None:
    files = BucketFiles(tmp_path / "timer")
    assert files.next_bucket(0) is None
    first, second = bucket_of(NOW), bucket_of(NOW) + 3 * SPAN_MS
    files.add(first, entry(NOW))
    files.add(second, entry(second + 5))
    write(files)
    files.add(first, entry(NOW + 1))
    assert files.read(first) == entry(NOW) + entry(NOW + 1)
    files.begin_write()
    files.add(first, entry(NOW + 2))
    assert files.read(first) == entry(NOW) + entry(NOW + 1) + entry(NOW + 2)
    files.write()
    files.end_write()
    files.sync()
    again = BucketFiles(tmp_path / "timer")
    assert again.read(first) == entry(NOW) + entry(NOW + 1)
    assert (again.next_bucket(0), again.next_bucket(first + 1), again.next_bucket(second + 1)) == (first, second, None)
    assert sorted(path.name for path in (tmp_path / "timer").iterdir()) == [f"{first:020d}", f"{second:020d}"]


def test_entries_are_counted_from_a_bucket_on(tmp_path: Path) -> None:
    files = BucketFiles(tmp_path)
    first, second = bucket_of(NOW), bucket_of(NOW) + SPAN_MS
    for bucket in (first, second, second):
        files.add(bucket, entry(bucket, 1))
    files.begin_write()
    files.write()
    files.end_write()
    files.add(second, entry(second, 4))
    assert (files.count_from(0), files.count_from(second), files.count_from(second + 1)) == (4, 3, 0)
    assert BucketFiles(tmp_path).count_from(0) == 3  # the last one was not written
    files.delete_before(second)
    assert files.count_from(0) == 3
    files.reset()
    assert files.count_from(0) == 1


def test_partial_entry_at_the_end_of_a_file_is_truncated(tmp_path: Path) -> None:
    files = BucketFiles(tmp_path)
    bucket = bucket_of(NOW)
    files.add(bucket, entry(NOW))
    write(files)
    with (tmp_path / f"{bucket:020d}").open("ab") as file:
        file.write(b"half")
    files = BucketFiles(tmp_path)
    files.add(bucket, entry(NOW + 1))
    write(files)
    assert files.read(bucket) == entry(NOW) + entry(NOW + 1)


def test_files_are_deleted_after_their_ten_minutes(tmp_path: Path) -> None:
    files = BucketFiles(tmp_path)
    for number in range(3):
        files.add(number * SPAN_MS, entry(number * SPAN_MS))
    write(files)
    assert not files.has_before(SPAN_MS - 1)
    assert files.has_before(SPAN_MS)
    files.delete_before(2 * SPAN_MS)
    assert [int(path.name) for path in tmp_path.iterdir()] == [2 * SPAN_MS]
    assert files.next_bucket(0) == 2 * SPAN_MS


def test_checkpoint_is_stored(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "timer")
    assert file.read() is None
    file.write(Checkpoint(1, NOW, 3))
    assert CheckpointFile(tmp_path / "timer").read() == Checkpoint(1, NOW, 3)
    for path in (tmp_path / "timer").iterdir():
        path.write_text('{"queueOffset": "many"}')
    with pytest.raises(ConfigFileUnreadable):
        CheckpointFile(tmp_path / "timer").read()


def test_recall_handle_round_trips() -> None:
    handle = RecallHandle("Topic-1", "broker-a", NOW, "7F0000010001")
    assert RecallHandle.decode(handle.encode()) == handle
    assert handle.encode() == "djEgVG9waWMtMSBicm9rZXItYSAxODAwMDAwMDAwMDAxIDdGMDAwMDAxMDAwMQ=="


@pytest.mark.parametrize("text", ["", "v1", "djEgYQ==", "djIgVCBiIDEgVQ==", "djEgVCBiIHggVQ==", "ä", "%%%"])
def test_invalid_recall_handle_is_refused(text: str) -> None:
    assert RecallHandle.decode(text) is None


def log_of(*properties: str, start: int = 0) -> bytes:
    data = b""
    for text in properties:
        data += encode_record(
            topic="T", body=b"TIMER_PHYSICAL_OFFSET\x0177", properties=text, physical_offset=start + len(data)
        )
    return data


def found_in(data: bytes, start: int, end: int, file_size: int) -> Delivered:
    found: Delivered = {}
    view = memoryview(data)
    read_on = lambda offset: view[offset : min(end, offset - offset % file_size + file_size)] if offset < end else None  # noqa: E731
    for _ in delivered_since(start, end, file_size, read_on, found):
        pass
    return found


def mark(offset: int) -> str:
    return f"UNIQ_KEY\x01U{offset}\x02TIMER_OUT_MS\x01{NOW}\x02TIMER_PHYSICAL_OFFSET\x01{offset}"


def test_only_delivered_records_are_found() -> None:
    data = log_of("TAGS\x01a", mark(5), "TAGS\x01b", mark(9), "TIMER_PHYSICAL_OFFSET\x01x")
    assert found_in(data, 0, len(data), 1 << 20) == {(5, "T", "U5"): NOW, (9, "T", "U9"): NOW}
    first = len(log_of("TAGS\x01a"))
    assert found_in(data, first + len(log_of(mark(5))), len(data), 1 << 20).keys() == {(9, "T", "U9")}


def test_search_continues_in_the_next_file() -> None:
    first = log_of(mark(1))
    blank = (64).to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big", signed=True) + bytes(56)
    file_size = len(first) + 64
    data = first + blank + log_of(mark(2), start=file_size)
    assert found_in(data, 0, len(data), file_size).keys() == {(1, "T", "U1"), (2, "T", "U2")}
    assert found_in(data, len(first), len(data), file_size).keys() == {(2, "T", "U2")}


def test_entry_contains_its_due_time() -> None:
    assert due_of(entry(NOW, 1, cancels=True)) == NOW
    assert ENTRY.unpack(entry(NOW, 1, 50, cancels=True)) == (NOW, 1, -50)
