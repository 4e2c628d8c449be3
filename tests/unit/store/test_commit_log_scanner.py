import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.protocol import record as codec
from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from headrace.protocol.record import encode_blank, encode_record
from headrace.protocol.record_layout import MESSAGE_MAGIC_V2
from store.commit_log import record_check
from store.commit_log.record_check import check_record, count_agreeing, queue_key, queue_key_at, topic_of, walk_known
from store.commit_log.scanner import Kind, find_end, scan
from store.mapped_file_queue import MappedFileQueue
from support.interpreted import run_interpreted
from support.store_files import LOG_FILE_SIZE, LogBuilder, small_config

HOST_V6 = ("::1", 10911)
KINDS = {
    "plain": {},
    "born over IPv6": {"born_host": HOST_V6},
    "stored over IPv6": {"store_host": HOST_V6},
    "both over IPv6": {"born_host": HOST_V6, "store_host": HOST_V6},
    "version 2": {"magic": MESSAGE_MAGIC_V2, "topic": "T" * 200},
    "without properties": {"properties": ""},
    "without body": {"body": b""},
}


def record(**fields: object) -> bytes:
    return encode_record(
        **{  # type: ignore[arg-type]
            "topic": "Topic",
            "body": b"a body",
            "properties": "KEYS\x01k",
            "queue_id": 3,
            "queue_offset": 7,
            "physical_offset": 5000,
            "store_timestamp": 1234567890123,
            **fields,
        }
    )


def check(data: bytes, offset: int = 5000, check_crc: bool = True, position: int = 0) -> int:
    return check_record(memoryview(data), position, len(data), offset, check_crc)


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_check_of_a_valid_record_returns_its_size(fields: dict[str, object]) -> None:
    data = record(**fields)
    assert check(data) == len(data)
    assert check(data + b"what follows") == len(data)
    assert check(b"before" + data, position=6) == len(data)


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_truncated_record_is_invalid(fields: dict[str, object]) -> None:
    data = record(**fields)
    assert all(check(data[:length]) < 0 for length in range(len(data)))


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_record_with_a_zeroed_end_is_invalid_unless_only_properties_are_lost(fields: dict[str, object]) -> None:
    data = record(**fields)
    for length in range(len(data) - 8):
        torn = data[:length] + bytes(len(data) - length)
        assert check(torn) < 0, length


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_queue_and_timestamp_are_read_from_the_record(fields: dict[str, object]) -> None:
    view = memoryview(b"before" + record(**fields))
    key = queue_key_at(view, 6)
    assert key is not None
    assert topic_of(key).decode() == fields.get("topic", "Topic")
    assert key == queue_key(topic_of(key), 3)
    assert record_check.store_timestamp_of(view, 6) == 1234567890123


@pytest.mark.parametrize(
    ("sys_flag", "has_entry"), [(0, True), (4, False), (8, True), (12, False), (1, True), (0x80, False)]
)
def test_prepared_and_rolled_back_messages_and_inner_batches_have_no_queue(sys_flag: int, has_entry: bool) -> None:
    assert (queue_key_at(memoryview(record(sys_flag=sys_flag)), 0) is not None) == has_entry


def test_each_fault_has_its_reason() -> None:
    good = record()
    assert check(bytes(200)) == record_check.NO_MAGIC
    assert check(good, offset=5001) == record_check.WRONG_PLACE
    assert check(good[:-1]) == record_check.NO_ROOM
    assert check((len(good) + 1).to_bytes(4, "big") + good[4:] + b"x") == record_check.WRONG_LENGTHS
    flipped = bytearray(good)
    flipped[90] ^= 1
    assert check(bytes(flipped)) == record_check.WRONG_CRC
    assert check(bytes(flipped), check_crc=False) == len(good)
    assert check(encode_blank(100)) == record_check.BLANK
    assert check(encode_blank(8)) == record_check.BLANK
    assert check(b"\0" * 7) == record_check.NO_ROOM


def damaged_records(seed: int, count: int) -> Iterator[bytes]:
    """Records of every kind, some with bytes that do not belong there."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(record(**chance.choice(list(KINDS.values()))) + bytes(30))
        for _ in range(chance.randrange(3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        yield bytes(data)


def place_in(data: bytes) -> int:
    """Where the record says that it lies."""
    return int.from_bytes(data[28:36], "big", signed=True)


def test_check_agrees_with_the_codec_on_every_kind_of_damage() -> None:
    for data in damaged_records(4, 3000):
        expected = codec.check_record(data, 0)
        ours = check(data, offset=place_in(data))
        assert (ours > 0) == (expected.is_ok and not expected.is_blank), (data, expected, ours)
        assert (ours == record_check.BLANK) == expected.is_blank


def verdicts(given: bytes) -> bytes:
    """What is said of damaged records, and of the queues of the good ones. Runs in either interpreter."""
    said = []
    for data in damaged_records(int(given), 2000):
        size = check(data, offset=place_in(data))
        said.append((size, queue_key_at(memoryview(data), 0) if size > 0 else None))
    return repr(said).encode()


@pytest.mark.slow
def test_compiled_and_interpreted_check_agree() -> None:
    assert run_interpreted("unit.store.test_commit_log_scanner", "verdicts", b"7") == verdicts(b"7")


Built = tuple[LogBuilder, MappedFileQueue]


@pytest.fixture
def built(tmp_path: Path) -> Built:
    builder = LogBuilder(small_config(tmp_path))
    builder.append_many(600)
    return builder, MappedFileQueue(builder.paths.commit_log, LOG_FILE_SIZE)


def test_scan_returns_records_and_blanks_without_a_gap(built: Built) -> None:
    builder, files = built
    found = list(scan(files, 0, builder.offset, check_crc=True))
    assert [one.physical_offset for one in found if one.kind is Kind.RECORD] == [
        one.physical_offset for one in builder.written
    ]
    assert sum(one.kind is Kind.BLANK for one in found) == 2
    assert all(a.physical_offset + a.size_bytes == b.physical_offset for a, b in pairwise(found))


def test_scan_without_an_end_reports_why_it_stopped(built: Built) -> None:
    builder, files = built
    *_, last = scan(files, 0, None, check_crc=True)
    assert (last.kind, last.physical_offset, last.reason) == (Kind.BAD, builder.offset, "no magic code")


def test_scan_can_begin_at_any_record_and_end_before_the_last(built: Built) -> None:
    builder, files = built
    first, last = builder.written[100], builder.written[400]
    found = [one for one in scan(files, first.physical_offset, last.physical_offset, check_crc=False) if one.size_bytes]
    assert found[0].physical_offset == first.physical_offset
    assert found[-1].physical_offset == builder.written[399].physical_offset


def test_end_of_the_log_is_found_with_its_last_record(built: Built) -> None:
    builder, files = built
    end = find_end(files, 0, check_crc=True)
    assert (end.offset, end.records) == (builder.offset, 600)
    assert end.last_record_offset == builder.written[-1].physical_offset
    assert end.last_timestamp == builder.written[-1].store_timestamp


def test_log_with_a_full_last_file_ends_at_the_end_of_the_file(tmp_path: Path) -> None:
    builder = LogBuilder(small_config(tmp_path))
    builder.append()
    room = LOG_FILE_SIZE - builder.offset
    builder.write(encode_blank(room)[:8])
    files = MappedFileQueue(builder.paths.commit_log, LOG_FILE_SIZE)
    assert find_end(files, 0, check_crc=True).offset == LOG_FILE_SIZE


FILE_START = 5000


def small_file(count: int, **fields: object) -> tuple[bytearray, list[int], bytearray]:
    """A log file that begins at FILE_START with records of queue 3, their positions, and the queue's entries from offset 7 on."""
    data, positions, entries = bytearray(), [], bytearray()
    for number in range(count):
        one = record(queue_offset=7 + number, physical_offset=FILE_START + len(data), **fields)
        positions.append(len(data))
        entries += ENTRY.pack(FILE_START + len(data), len(one), 0)
        data += one
    return data, positions, entries


def agreeing(
    entries: bytes | bytearray, data: bytes | bytearray, key: bytes, first: int = 7, end: int | None = None
) -> int:
    end = FILE_START + len(data) if end is None else end
    return count_agreeing(memoryview(entries), first, memoryview(data), FILE_START, end, key)


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_entries_agree_with_their_records(fields: dict[str, object]) -> None:
    data, _, entries = small_file(5, **fields)
    key = queue_key(str(fields.get("topic", "Topic")).encode(), 3)
    assert agreeing(entries, data, key) == 5
    assert agreeing(entries[ENTRY_SIZE:], data, key, first=8) == 4
    assert agreeing(entries, data, key, end=FILE_START + len(data) - 1) == 4
    assert agreeing(entries[:-1], data, key) == 4
    assert agreeing(b"", data, key) == 0
    assert agreeing(entries, data, key, first=8) == 0
    assert agreeing(entries, data, queue_key(key[4:], 2)) == 0
    assert agreeing(entries, data, queue_key(key[4:] + b"s", 3)) == 0
    assert agreeing(entries, data, queue_key(b"x" * len(key[4:]), 3)) == 0


@pytest.mark.parametrize(
    "entry",
    [
        (FILE_START - 1, 100, 0),
        (FILE_START + (1 << 20), 100, 0),
        (FILE_START + 1, 100, 0),
        (-1, 100, 0),
        (-(1 << 63), 100, 0),
        ((1 << 63) - 1, 100, 0),
        (FILE_START, 0, 0),
        (FILE_START, -1, 0),
        (FILE_START, 0x7FFFFFFF, 0),
        (0, 0, 0),
    ],
)
def test_entry_without_its_record_ends_the_count(entry: tuple[int, int, int]) -> None:
    data, _, entries = small_file(5)
    entries[2 * ENTRY_SIZE : 3 * ENTRY_SIZE] = ENTRY.pack(*entry)
    assert agreeing(entries, data, queue_key(b"Topic", 3)) == 2


@pytest.mark.parametrize(("sys_flag", "count"), [(0, 3), (0x4, 0), (0x8, 3), (0xC, 0), (0x80, 0)])
def test_only_records_that_have_entries_agree_and_end_the_walk(sys_flag: int, count: int) -> None:
    """Prepared and rolled-back messages have none, nor have RocketMQ 5's batches: walks pass them."""
    data, _, entries = small_file(3, sys_flag=sys_flag)
    assert agreeing(entries, data, queue_key(b"Topic", 3)) == count
    stopped = 0 if count else len(data)
    assert walk_known(memoryview(data), 0, len(data), FILE_START, True, set())[0] == stopped


def test_walk_stops_at_a_record_of_another_queue_and_at_the_end() -> None:
    data, positions, _ = small_file(3)
    size = positions[1]
    other = record(queue_id=9, physical_offset=FILE_START + len(data))
    whole = memoryview(bytes(data + other + bytes(100)))
    known = {queue_key(b"Topic", 3)}
    assert walk_known(whole, 0, len(whole), FILE_START, True, set()) == (0, size, 0, -1)
    assert walk_known(whole, 0, len(whole), FILE_START, True, known) == (len(data), len(other), 3, positions[2])
    known.add(queue_key(b"Topic", 9))
    end = len(data) + len(other)
    assert walk_known(whole, 0, len(whole), FILE_START, True, known) == (end, record_check.NO_MAGIC, 4, len(data))
    assert walk_known(whole, 0, size + 5, FILE_START, True, known) == (size, record_check.NO_ROOM, 1, 0)


def counts(given: bytes) -> bytes:
    """What is counted in damaged files. Runs in either interpreter."""
    chance = random.Random(int(given))
    said = []
    for _ in range(500):
        data, _, entries = small_file(6, **chance.choice(list(KINDS.values())))
        for damaged in (data, entries):
            for _ in range(chance.randrange(3)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        key = queue_key(b"Topic" if chance.random() < 0.8 else b"T" * 200, 3)
        walked = walk_known(memoryview(data), 0, len(data), FILE_START, True, {key})
        said.append((agreeing(bytes(entries), bytes(data), key), walked))
    return repr(said).encode()


@pytest.mark.slow
def test_compiled_and_interpreted_counts_agree() -> None:
    assert run_interpreted("unit.store.test_commit_log_scanner", "counts", b"7") == counts(b"7")
