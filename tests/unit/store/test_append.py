"""Appending to the CommitLog: a record's bytes, files that are full, and what is published when."""

from array import array
from typing import Any

import pytest

from headrace.model.host import encode_host
from headrace.protocol.record import decode_records, encode_record
from store.commit_log.append import CommitLogAppender, TopicQueues
from support.hot_sends import ALLOCATED_WORD, NOW_MS, LogInMemory

FILE_SIZE = 4096
BORN, STORE = ("10.1.2.3", 40000), ("127.0.0.1", 10911)
OVERHEAD = 91 + 1 + 3  # with topic T and properties k=v


def put(log: LogInMemory, body: bytes = b"body", queue_id: int = 0, *, queued: bool = True, **fields: Any) -> int:
    """Appends to topic T; returns the physical offset, -1 without a file."""
    given: dict[str, Any] = {
        "flag": 0, "sys_flag": 0, "born_timestamp": 0, "born_host": BORN, "store_host": STORE, "reconsume_times": 0,
        "prepared_transaction_offset": 0, "body_crc": 0, "properties": b"k\x01v",
    } | fields  # fmt: skip
    return log.appender.append(
        log.appender.queues_of(b"T"),
        queue_id,
        given["flag"],
        given["sys_flag"],
        given["born_timestamp"],
        encode_host(given["born_host"]),
        encode_host(given["store_host"]),
        given["reconsume_times"],
        given["prepared_transaction_offset"],
        body,
        given["body_crc"],
        given["properties"],
        queued,
    )


def test_appended_record_equals_the_codecs() -> None:
    log = LogInMemory(1, FILE_SIZE)
    log.appender.begin(NOW_MS)
    put(log, b"first")
    at = put(
        log, b"second", 3, flag=-7, sys_flag=0x301, born_timestamp=1 << 41, reconsume_times=4,
        prepared_transaction_offset=1 << 40, body_crc=0x7FFFFFFF, properties="größe\x01ü".encode(),
    )  # fmt: skip
    encoded = encode_record(
        topic="T", body=b"second", queue_id=3, queue_offset=0, physical_offset=at, flag=-7, sys_flag=0x301,
        born_timestamp=1 << 41, born_host=BORN, store_host=STORE, store_timestamp=log.appender.store_timestamp,
        reconsume_times=4, prepared_transaction_offset=1 << 40, properties="größe\x01ü", crc=0x7FFFFFFF,
    )  # fmt: skip
    assert log.bytes()[at:] == encoded


def test_time_of_the_last_record_is_published_whatever_was_read_since() -> None:
    log = LogInMemory(1, FILE_SIZE)
    log.appender.begin(1_000_000)
    put(log)
    log.appender.begin(1_001_000)
    assert log.appender.publish()
    assert log.published_timestamp == 1_000_000
    put(log)
    assert log.appender.publish()
    assert log.published_timestamp == 1_001_000


def test_ipv4_and_ipv6_hosts_are_written() -> None:
    log = LogInMemory(1, FILE_SIZE)
    put(log, born_host=("2001:db8::1", 1), store_host=("::1", 2), sys_flag=0x30)
    put(log, born_host=("2001:db8::1", 1), sys_flag=0x10)
    put(log, b"")
    both, born, none = decode_records(log.bytes())
    assert (both.born_host, both.store_host) == (("2001:db8::1", 1), ("::1", 2))
    assert (born.born_host, born.store_host) == (("2001:db8::1", 1), STORE)
    assert (none.born_host, none.body) == (BORN, b"")


def test_queue_offset_increases_only_for_queued_messages() -> None:
    log = LogInMemory(1, FILE_SIZE)
    log.appender.queues_of(b"T").advance(1, 40)
    for queue_id, queued in ((0, True), (0, False), (0, True), (1, True), (7, True)):
        put(log, queue_id=queue_id, queued=queued)
    assert [(one.queue_id, one.queue_offset) for one in decode_records(log.bytes())] == [
        (0, 0),
        (0, 0),
        (0, 1),
        (1, 40),
        (7, 0),
    ]


def test_queues_keep_their_offsets_when_queues_are_added() -> None:
    queues = TopicQueues(b"T")
    queues.advance(2, 5)
    queues.advance(9, 1)
    assert [queues.next_offset(queue_id) for queue_id in (0, 2, 9, 12)] == [0, 5, 1, 0]
    assert queues.next_offset(2) == 5


def test_unpublished_records_are_not_visible() -> None:
    log = LogInMemory(1, FILE_SIZE)
    assert log.appender.publish() is False
    put(log)
    put(log)
    assert log.published == 0
    assert log.appender.publish() is True
    assert log.published == log.appender.wrote_offset == 2 * (OVERHEAD + 4)
    assert log.appender.publish() is False


def test_record_that_does_not_fit_begins_the_next_file_after_a_blank() -> None:
    log = LogInMemory(2, FILE_SIZE)
    put(log, bytes(3000))
    end = log.appender.wrote_offset
    assert put(log, bytes(1000)) == FILE_SIZE
    blank = bytes(log.memory[0][end : end + 8])
    assert blank == (FILE_SIZE - end).to_bytes(4, "big") + bytes.fromhex("CBD43194")
    assert not any(log.memory[0][end + 8 :])
    assert decode_records(bytes(log.memory[FILE_SIZE][: OVERHEAD + 1000]))[0].physical_offset == FILE_SIZE


@pytest.mark.parametrize(("left", "fits"), [(8, True), (7, False), (0, False)])
def test_record_leaves_room_for_a_blank_record(left: int, fits: bool) -> None:
    log = LogInMemory(2, FILE_SIZE)
    at = put(log, bytes(FILE_SIZE - OVERHEAD - left)) if left >= 8 else put(log, bytes(1000))
    assert at == 0
    if not fits:
        rest = FILE_SIZE - log.appender.wrote_offset
        assert put(log, bytes(rest - OVERHEAD - left)) == FILE_SIZE
    else:
        assert log.appender.wrote_offset == FILE_SIZE - 8
        assert put(log) == FILE_SIZE
        assert bytes(log.memory[0][-8:]) == bytes.fromhex("00000008CBD43194")


def test_append_without_a_reserved_file_writes_nothing() -> None:
    log = LogInMemory(1, FILE_SIZE)
    put(log, bytes(3000))
    end, limit = log.appender.wrote_offset, log.limit
    assert put(log, bytes(1000)) == -1
    assert (log.appender.wrote_offset, log.limit) == (end, limit)
    assert put(log, bytes(500)) == end
    assert decode_records(log.bytes())[1].queue_offset == 1
    log.words[ALLOCATED_WORD] = 2 * FILE_SIZE
    assert put(log, bytes(1000)) == FILE_SIZE


def test_append_limit_is_raised_before_bytes_beyond_it_are_written() -> None:
    log = LogInMemory(3, FILE_SIZE)
    limits: list[tuple[int, bool]] = []
    raise_limit = log.append_limit

    def note(physical_offset: int) -> None:
        untouched = all(not any(data[max(0, log.limit - start) :]) for start, data in log.memory.items())
        limits.append((physical_offset, untouched))
        raise_limit(physical_offset)

    log.append_limit = note  # type: ignore[method-assign]
    for _ in range(9):
        put(log, b"\xff" * 1000)
        assert log.appender.wrote_offset <= log.limit
    assert limits
    assert all(untouched for _, untouched in limits)


@pytest.mark.parametrize("wrote_offset", [0, 5000, 3 << 18])
def test_memory_is_populated_ahead_of_the_records_only(wrote_offset: int) -> None:
    file_size = 1 << 20
    populated: list[tuple[int, int]] = []
    words = memoryview(array("q", [4 * file_size]))
    publisher: Any = LogInMemory(1, file_size)

    def populate(start: int, end: int) -> None:
        assert log.wrote_offset <= start < end <= log.wrote_offset + (1 << 19)
        populated.append((start, end))

    log = CommitLogAppender(
        publisher, lambda _: memoryview(bytearray(file_size)), words, 0, file_size, wrote_offset, wrote_offset, populate
    )  # fmt: skip
    queues = log.queues_of(b"T")
    host = encode_host(STORE)
    while log.wrote_offset < 3 * file_size:
        log.append(queues, 0, 0, 0, 0, host, host, 0, 0, b"x" * 20_000, 0, b"", True)
    ends = [end for _, end in populated]
    assert all(end % (1 << 18) == 0 for end in ends)
    assert all(start >= end for (start, _), end in zip(populated[1:], ends, strict=False))
    assert len(populated) >= (3 * file_size - wrote_offset) >> 18


@pytest.mark.parametrize("limit", [1 << 18, 5000])
def test_limit_is_raised_ahead_when_little_is_left(limit: int) -> None:
    ahead, file_size = 1 << 18, 1 << 20
    populated: list[tuple[int, int]] = [(0, limit)]
    words = memoryview(array("q", [0]))
    publisher: Any = LogInMemory(1, file_size)
    log = CommitLogAppender(
        publisher, lambda _: memoryview(bytearray(file_size)), words, 0, file_size, 0, limit,
        lambda start, end: populated.append((start, end)),
    )  # fmt: skip
    log.raise_ahead()
    assert len(populated) == 1, "no file is open yet"
    words[0] = 2 * file_size
    queues, host = log.queues_of(b"T"), encode_host(STORE)
    while log.wrote_offset < file_size:
        log.append(queues, 0, 0, 0, 0, host, host, 0, 0, b"x" * 20_000, 0, b"", True)
        for _ in range(2):
            log.raise_ahead()
            left = populated[-1][1] - log.wrote_offset
            assert ahead // 4 <= left <= ahead + ahead // 4 or populated[-1][1] == file_size
    assert [start for start, _ in populated[1:]] == [end for _, end in populated[:-1]]


def test_appender_continues_at_the_end_of_the_log() -> None:
    before = LogInMemory(2, FILE_SIZE)
    put(before, b"before")
    end = before.appender.wrote_offset
    after = LogInMemory(2, FILE_SIZE, wrote_offset=end)
    after.memory = before.memory
    assert put(after, b"after") == end
    assert [one.body for one in decode_records(bytes(after.memory[0][: after.appender.wrote_offset]))] == [
        b"before",
        b"after",
    ]


@pytest.mark.parametrize("end", [FILE_SIZE, FILE_SIZE - 8])
def test_log_that_ends_with_its_file_continues_in_the_next(end: int) -> None:
    log = LogInMemory(2, FILE_SIZE, wrote_offset=end)
    log.memory[0] = bytearray(b"\xee" * FILE_SIZE)
    assert put(log) == FILE_SIZE
    assert bytes(log.memory[0][:end]) == b"\xee" * end


def test_ensure_reserves_room_for_a_whole_batch() -> None:
    log = LogInMemory(2, FILE_SIZE)
    appender: CommitLogAppender = log.appender
    assert appender.largest_record == FILE_SIZE - 8
    put(log, bytes(3000))
    assert appender.ensure(100)
    assert appender.wrote_offset < FILE_SIZE
    assert appender.ensure(FILE_SIZE - 8)
    assert appender.wrote_offset == FILE_SIZE
    assert not appender.ensure(FILE_SIZE - 8 + 1)


def test_store_timestamps_never_decrease() -> None:
    log = LogInMemory(1, FILE_SIZE)
    for now_ms, timestamp in ((NOW_MS, NOW_MS), (NOW_MS - 5000, NOW_MS), (NOW_MS + 5000, NOW_MS + 5000)):
        log.appender.begin(now_ms)
        assert log.appender.store_timestamp == timestamp
