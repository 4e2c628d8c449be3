"""Reading a queue from an offset on: the outcomes, and what is told of where to go on (store spec, 3.5)."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.model.java_hash import tags_code
from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from headrace.protocol.record import decode_records
from store.commit_log.reader import CommitLogReader
from store.config import StoreConfig
from store.paths import StorePaths
from store.query.get import GetResult, MessageGetter, warm
from store.query.sources import PullSources
from store.status import GetMessageStatus
from support.descriptors import settled_descriptors
from support.dispatched_store import HandWrittenLog

ENTRIES_PER_FILE = 10
MEMORY = 1 << 40


class Offsets:
    """What is published of the log."""

    min_offset = 0
    wrote_offset = 0


class Queue:
    """A real log, and one queue whose entries lie in memory."""

    def __init__(self, root: Path, memory_bytes: int = MEMORY, **settings: Any) -> None:
        self.config = StoreConfig(
            mapped_file_size_commit_log=65536,
            max_message_size=1024,
            mapped_file_size_consume_queue=ENTRIES_PER_FILE * ENTRY_SIZE,
            **settings,
        )
        paths = StorePaths(root)
        paths.make_directories()
        self.log = HandWrittenLog(paths, self.config)
        self.offsets = Offsets()
        self.reader = CommitLogReader(paths, self.config, self.offsets)
        self.least = 0
        self.rows: list[bytes] = []
        self.missing_files: set[int] = set()
        self.sources = PullSources(self, self.reader, self.offsets, self.config, memory_bytes)
        self.getter = MessageGetter(self.sources)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        return (self.least, len(self.rows)) if (topic, queue_id) == ("T", 0) else (0, 0)

    def entries(self, topic: str, queue_id: int, queue_offset: int) -> memoryview | None:
        least, most = self.bounds(topic, queue_id)
        file = queue_offset // ENTRIES_PER_FILE
        if not least <= queue_offset < most or file in self.missing_files:
            return None
        return memoryview(b"".join(self.rows[queue_offset : (file + 1) * ENTRIES_PER_FILE]))

    def put(self, body: bytes = b"body", tag: str = "") -> None:
        offset = self.log.append("T", 0, body=body)
        self.rows.append(ENTRY.pack(offset, self.log.end - offset, tags_code(tag)))
        self.offsets.wrote_offset = self.log.end

    def get(self, offset: int, count: int = 32, codes: set[int] | None = None) -> GetResult:
        return self.getter.get("T", 0, offset, count, codes)


def told(result: GetResult) -> tuple[GetMessageStatus, int, int, int]:
    return result.status, result.next_begin_offset, result.min_offset, result.max_offset


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    made = Queue(tmp_path)
    for number in range(5):
        made.put(b"%d" % number, "ab"[number % 2])
    yield made
    made.reader.close()


def test_get_returns_messages_from_an_offset_and_the_next_offset(queue: Queue) -> None:
    result = queue.get(1, 3)
    assert told(result) == (GetMessageStatus.FOUND, 4, 0, 5)
    assert [record.body for record in decode_records(result.body)] == [b"1", b"2", b"3"]
    assert (result.count, result.suggest_slave) == (3, False)


@pytest.mark.parametrize(
    ("least", "offset", "outcome"),
    [
        (0, 5, (GetMessageStatus.OFFSET_OVERFLOW_ONE, 5)),
        (0, 6, (GetMessageStatus.OFFSET_OVERFLOW_BADLY, 5)),
        (2, 1, (GetMessageStatus.OFFSET_TOO_SMALL, 2)),
        (0, -1, (GetMessageStatus.OFFSET_TOO_SMALL, 0)),
        (5, 5, (GetMessageStatus.OFFSET_OVERFLOW_ONE, 5)),
    ],
)
def test_offsets_out_of_range_are_corrected(
    queue: Queue, least: int, offset: int, outcome: tuple[GetMessageStatus, int]
) -> None:
    queue.least = least
    assert told(queue.get(offset)) == (*outcome, least, 5)
    assert queue.get(offset).body == b""


def test_empty_queue_begins_at_0(queue: Queue) -> None:
    for offset in (0, 7):
        assert told(queue.getter.get("T", 1, offset, 1, None)) == (GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)


def test_unwanted_messages_are_skipped(queue: Queue) -> None:
    assert told(queue.get(0, codes={1})) == (GetMessageStatus.NO_MATCHED_MESSAGE, 5, 0, 5)
    assert queue.get(0, codes={tags_code("b")}).count == 2


def test_get_stays_within_one_queue_file(queue: Queue) -> None:
    for _ in range(10):
        queue.put()
    assert told(queue.get(7)) == (GetMessageStatus.FOUND, 10, 0, 15)
    assert told(queue.get(7, codes={1})) == (GetMessageStatus.NO_MATCHED_MESSAGE, 10, 0, 15)


def test_missing_queue_file_is_skipped(queue: Queue) -> None:
    for _ in range(10):
        queue.put()
    queue.missing_files.add(0)
    assert told(queue.get(3)) == (GetMessageStatus.OFFSET_FOUND_NULL, 10, 0, 15)


def test_deleted_records_are_reported(queue: Queue) -> None:
    queue.offsets.min_offset = 65536
    assert told(queue.get(0)) == (GetMessageStatus.MESSAGE_WAS_REMOVING, 5, 0, 5)


def test_slave_corrects_offsets_only_if_configured(tmp_path: Path) -> None:
    for checks, corrected in ((False, 9), (True, 0)):
        queue = Queue(tmp_path / str(checks), broker_role="SLAVE", offset_check_in_slave=checks)
        assert queue.get(9).next_begin_offset == corrected


def test_far_behind_is_a_share_of_memory(tmp_path: Path) -> None:
    queue = Queue(tmp_path, memory_bytes=10_000)  # 40 per cent: 4,000 bytes
    for _ in range(8):
        queue.put(bytes(1000))
    assert queue.get(0, 1).suggest_slave
    assert not queue.get(7, 1).suggest_slave
    assert queue.getter.is_far_behind(queue.log.end - 4001)
    assert not queue.getter.is_far_behind(queue.log.end - 4000)


def test_location_of_a_message_is_returned(queue: Queue) -> None:
    assert queue.getter.physical_offset_at("T", 0, 0) == 0
    assert queue.getter.physical_offset_at("T", 0, 1) == ENTRY.unpack(queue.rows[1])[0]
    for offset in (-1, 5):
        assert queue.getter.physical_offset_at("T", 0, offset) == -1
    assert queue.getter.physical_offset_at("U", 0, 0) == -1


def test_recent_messages_need_no_warming(queue: Queue) -> None:
    assert not queue.getter.is_cold("T", 0, 0)
    assert not queue.getter.is_cold("T", 0, 99)


def test_warming_reads_the_records_of_a_pull_and_closes_its_files(queue: Queue) -> None:
    queue.get(0)  # maps the log's file
    before = len(settled_descriptors())
    plan = queue.getter.plan_warming("T", 0, 1, 3)
    places = [ENTRY.unpack(row)[:2] for row in queue.rows[1:4]]
    wanted = {byte for position, length in places for byte in range(position, position + length)}
    assert {byte for _, position, length in plan for byte in range(position, position + length)} == wanted
    warm(plan)
    assert len(os.listdir("/proc/self/fd")) == before
    assert queue.getter.plan_warming("T", 0, 99, 3) == []
    assert queue.getter.plan_warming("T", 0, 0, -1) == []


def test_unreadable_records_are_skipped_individually_counted_and_logged_once(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    physical_offset = ENTRY.unpack(queue.rows[2])[0]
    path = queue.reader.file_for(0).path  # type: ignore[union-attr]
    with path.open("r+b") as file:
        file.seek(physical_offset)
        file.write(bytes(90))
    for _ in range(3):
        result = queue.get(0)
        assert (result.status, result.next_begin_offset, result.count) == (GetMessageStatus.FOUND, 5, 4)
        assert [record.queue_offset for record in decode_records(result.body)] == [0, 1, 3, 4]
    alone = queue.get(2, 1)
    assert (alone.status, alone.next_begin_offset) == (GetMessageStatus.FOUND, 4)
    assert queue.sources.unreadable.count == 1
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"topic=T queue_id=0 queue_offset=2 physical_offset={physical_offset} " in line
