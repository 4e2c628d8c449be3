"""Reading a queue through a filter: what is found, and where the next pull begins."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from headrace.protocol.record import decode_records
from store.commit_log.reader import CommitLogReader
from store.config import StoreConfig
from store.consume_queue.ext_writer import ConsumeQueueExtWriter
from store.filter.bloom import BloomFilter
from store.filter.message_filter import ExpressionFilter
from store.filter.program import Program
from store.filter.sql_compile import compile_expression
from store.paths import StorePaths
from store.query.filtered import FilteredGetter
from store.query.get import GetResult
from store.query.sources import PullSources
from store.status import GetMessageStatus
from support.dispatched_store import HandWrittenLog

ENTRIES_PER_FILE = 10
BITS = BloomFilter().data_of("g", "T")


class Offsets:
    """What is published of the log."""

    min_offset = 0
    wrote_offset = 0


class Queue:
    """A real log with messages whose property `n` counts from 0, and one queue whose entries lie in memory."""

    def __init__(self, root: Path, memory_bytes: int = 1 << 40, **settings: Any) -> None:
        self.config = StoreConfig(
            mapped_file_size_commit_log=65536,
            max_message_size=1024,
            mapped_file_size_consume_queue=ENTRIES_PER_FILE * ENTRY_SIZE,
            mapped_file_size_consume_queue_ext=200,
            **settings,
        )
        paths = StorePaths(root)
        paths.make_directories()
        self.log = HandWrittenLog(paths, self.config)
        self.offsets = Offsets()
        self.reader = CommitLogReader(paths, self.config, self.offsets)
        self.rows: list[bytes] = []
        self.units = ConsumeQueueExtWriter(root / "consumequeue_ext" / "T" / "0", 200, None)
        self.sources = PullSources(self, self.reader, self.offsets, self.config, memory_bytes)
        self.getter = FilteredGetter(self.sources, paths)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        return (0, len(self.rows)) if (topic, queue_id) == ("T", 0) else (0, 0)

    def entries(self, topic: str, queue_id: int, queue_offset: int) -> memoryview | None:
        most = self.bounds(topic, queue_id)[1]
        if not 0 <= queue_offset < most:
            return None
        end = (queue_offset // ENTRIES_PER_FILE + 1) * ENTRIES_PER_FILE
        return memoryview(b"".join(self.rows[queue_offset:end]))

    def put(self, body: bytes = b"body", bit_map: bytes | None = None) -> None:
        offset = self.log.append("T", 0, body=body, properties=f"n\x01{len(self.rows)}")
        code: int | None = 0
        if bit_map is not None:
            code = self.units.put(0, 2000, bit_map)
            assert code is not None
        self.rows.append(ENTRY.pack(offset, self.log.end - offset, code))
        self.offsets.wrote_offset = self.log.end

    def get(self, expression: str, offset: int = 0, count: int = 32, *, with_bits: bool = False) -> GetResult:
        program = compile_expression(expression)
        assert isinstance(program, Program)
        wanted = ExpressionFilter(program, BITS if with_bits else None, 1000)
        return self.getter.get("T", 0, offset, count, wanted)


def numbers(result: GetResult) -> list[int]:
    return [int(record.properties["n"]) for record in decode_records(result.body)]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    made = Queue(tmp_path)
    for _ in range(8):
        made.put()
    yield made
    made.units.close()
    made.reader.close()


def test_only_wanted_messages_are_returned_and_others_are_skipped(queue: Queue) -> None:
    result = queue.get("n = 2 OR n >= 5")
    assert (result.status, numbers(result), result.count) == (GetMessageStatus.FOUND, [2, 5, 6, 7], 4)
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (8, 0, 8)


def test_next_pull_begins_after_the_last_message(queue: Queue) -> None:
    found, offset = [], 0
    while offset < 8:
        result = queue.get("n = 2 OR n >= 5", offset, 2)
        found.append((result.next_begin_offset, numbers(result)))
        offset = result.next_begin_offset
    assert found == [(6, [2, 5]), (8, [6, 7])]


def test_all_messages_are_skipped_if_none_is_wanted(queue: Queue) -> None:
    result = queue.get("n > 100", 3)
    assert (result.status, result.next_begin_offset, result.max_offset, result.body) == (
        GetMessageStatus.NO_MATCHED_MESSAGE, 8, 8, b"",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "outcome"),
    [
        (8, (GetMessageStatus.OFFSET_OVERFLOW_ONE, 8)),
        (9, (GetMessageStatus.OFFSET_OVERFLOW_BADLY, 8)),
        (-1, (GetMessageStatus.OFFSET_TOO_SMALL, 0)),
    ],
)
def test_offsets_out_of_range_are_corrected_as_without_a_filter(
    queue: Queue, offset: int, outcome: tuple[GetMessageStatus, int]
) -> None:
    queue.get("n = 2")
    result = queue.get("n = 2", offset)
    assert (result.status, result.next_begin_offset, result.count) == (*outcome, 0)


def test_get_stays_within_one_queue_file(queue: Queue) -> None:
    for _ in range(5):
        queue.put()
    assert queue.get("n > 100", 3).next_begin_offset == 10
    assert numbers(queue.get("n > 100 OR n = 12", 10)) == [12]


def test_deleted_records_are_reported(queue: Queue) -> None:
    queue.offsets.min_offset = 65536
    result = queue.get("n = 2")
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.MESSAGE_WAS_REMOVING, 8)


def test_slave_is_suggested_to_consumers_far_behind(tmp_path: Path) -> None:
    queue = Queue(tmp_path, memory_bytes=10_000)
    for _ in range(10):
        queue.put(bytes(900))
    assert queue.get("n = 1", count=1).suggest_slave
    assert not queue.get("n = 9", 9).suggest_slave
    assert not queue.get("n > 100").suggest_slave
    assert queue.get("n > 100 OR n = 0", count=1).suggest_slave


def test_bit_maps_are_read_from_the_extended_units(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    hit = BloomFilter().map_of([BITS])
    for number in range(10):  # several files of units
        queue.put(bit_map=hit if number % 2 else bytes(14))
    assert numbers(queue.get("n >= 0", with_bits=True)) == [1, 3, 5, 7, 9]
    assert numbers(queue.get("n >= 0")) == list(range(10))
    for path in (tmp_path / "consumequeue_ext" / "T" / "0").iterdir():
        path.unlink()
    assert numbers(queue.get("n >= 0", with_bits=True)) == list(range(10))
    queue.units.close()


def test_unreadable_records_are_skipped_individually_and_counted(queue: Queue) -> None:
    physical_offset = ENTRY.unpack(queue.rows[5])[0]
    path = queue.reader.file_for(0).path  # type: ignore[union-attr]
    with path.open("r+b") as file:
        file.seek(physical_offset)
        file.write(bytes(90))
    result = queue.get("n >= 3")
    assert (numbers(result), result.next_begin_offset) == ([3, 4, 6, 7], 8)
    assert queue.sources.unreadable.count == 1
