import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from ipc.cells import store_cell
from ipc.errors import QueueTableFull
from ipc.posix import Segment, anonymous_segment
from ipc.queue_rows import (
    CHANGES,
    FIRST_ROW_WORD,
    GENERATION,
    MAX_PHYSICAL_OFFSET,
    MAX_QUEUE_OFFSET,
    MIN_QUEUE_OFFSET,
    ROW_WORDS,
    QueueRows,
    RowReader,
)
from ipc.queue_table import (
    ROW_COUNT,
    TOPIC_BYTES,
    QueueTable,
    QueueTableWriter,
    format_queue_table,
    row_word,
    size_bytes,
)
from support.interpreted import run_compiled, run_interpreted

CAPACITY = 8


@pytest.fixture
def segment() -> Segment:
    segment = anonymous_segment(size_bytes(CAPACITY))
    format_queue_table(segment, "00c0ffee", CAPACITY)
    return segment


def test_rows_are_320_bytes_on_separate_cache_lines() -> None:
    assert ROW_WORDS * 8 == 320
    assert FIRST_ROW_WORD % 8 == ROW_WORDS % 8 == 0
    assert row_word(3) == FIRST_ROW_WORD + 3 * ROW_WORDS


def test_table_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        format_queue_table(anonymous_segment(4096), "00c0ffee", CAPACITY * 100)


def test_new_queue_is_found_with_its_first_bounds(segment: Segment) -> None:
    writer, table = QueueTableWriter(segment), QueueTable(segment)
    assert table.find("Grüße".encode(), 3) == -1
    row = writer.add("Grüße".encode(), 3)
    assert table.find("Grüße".encode(), 3) == row
    assert table.find("Grüße".encode(), 4) == -1
    assert table.bounds(row) == (0, 0, -1)


def test_known_queue_keeps_its_row(segment: Segment) -> None:
    writer = QueueTableWriter(segment)
    row = writer.add(b"t", 0)
    writer.update(row, 1, 2, 3)
    changes = segment.words[CHANGES]
    assert writer.add(b"t", 0) == row
    assert QueueTable(segment).bounds(row) == (1, 2, 3)
    assert segment.words[CHANGES] == changes


def test_bounds_are_the_last_published_ones(segment: Segment) -> None:
    writer, table = QueueTableWriter(segment), QueueTable(segment)
    first, second = writer.add(b"t", 0), writer.add(b"t", 1)
    writer.update(first, 5, 10, 1 << 40)
    writer.update(second, 6, 11, 1 << 41)
    writer.update(first, 5, 12, 1 << 42)
    assert table.bounds(first) == (5, 12, 1 << 42)
    assert table.bounds(second) == (6, 11, 1 << 41)
    assert list(table.rows()) == [(first, b"t", 0, 5, 12, 1 << 42), (second, b"t", 1, 6, 11, 1 << 41)]


def words_after_updates(given: bytes) -> bytes:
    """The whole table, in the interpreter that this is called in."""
    segment = anonymous_segment(size_bytes(CAPACITY))
    format_queue_table(segment, "00c0ffee", CAPACITY)
    writer = QueueTableWriter(segment)
    for number, byte in enumerate(given):
        writer.update(writer.add(b"t", byte % CAPACITY), number, number << 33, -number)
    return bytes(segment.view)


def test_interpreted_rows_equal_compiled_ones() -> None:
    given = bytes(range(0, 200, 7))
    expected = words_after_updates(given)
    assert run_interpreted("unit.ipc.test_queue_table", "words_after_updates", given) == expected
    assert run_compiled("unit.ipc.test_queue_table", "words_after_updates", given) == expected


@pytest.mark.parametrize("row", [-1, CAPACITY, 1 << 40])
def test_row_beyond_the_table_is_never_stored_or_loaded(segment: Segment, row: int) -> None:
    before = bytes(segment.view)
    with pytest.raises(IndexError):
        QueueRows(segment.words, CAPACITY).update(row, 1, 2, 3)
    assert bytes(segment.view) == before
    with pytest.raises(IndexError):
        RowReader(segment.words, CAPACITY).load(row)


def rows_that_are_loaded(given: bytes) -> bytes:
    """Rows of random words as they are loaded; those with an odd generation are not."""
    words = memoryview(bytearray(given)).cast("q")
    reader = RowReader(words, CAPACITY)
    loaded = []
    for row in range(CAPACITY):
        is_loaded = reader.load(row)
        loaded.append(repr((is_loaded, reader.min_queue_offset, reader.max_queue_offset, reader.max_physical_offset)))
        assert not is_loaded or reader.changes == words[CHANGES]
        assert is_loaded == (words[row_word(row) + GENERATION] % 2 == 0)
    return "".join(loaded).encode()


def test_interpreted_reader_of_rows_equals_the_compiled_one() -> None:
    given = random.Random(4).randbytes(size_bytes(CAPACITY))
    expected = rows_that_are_loaded(given)
    assert run_interpreted("unit.ipc.test_queue_table", "rows_that_are_loaded", given) == expected
    assert run_compiled("unit.ipc.test_queue_table", "rows_that_are_loaded", given) == expected
    assert b"True" in expected
    assert b"False" in expected


def test_change_counter_moves_with_rows_but_not_with_bounds(segment: Segment) -> None:
    writer, table = QueueTableWriter(segment), QueueTable(segment)
    before = table.changes
    row = writer.add(b"t", 0)
    added = table.changes
    writer.update(row, 0, 1, 100)
    assert before < added == table.changes
    writer.free(row)
    assert table.changes > added


def test_freed_queue_is_not_found_and_its_row_is_reused(segment: Segment) -> None:
    writer, table = QueueTableWriter(segment), QueueTable(segment)
    row = writer.add(b"a-long-name-that-leaves-bytes", 7)
    writer.update(row, 1, 2, 3)
    assert table.find(b"a-long-name-that-leaves-bytes", 7) == row
    writer.free(row)
    assert table.find(b"a-long-name-that-leaves-bytes", 7) == -1
    assert list(table.rows()) == []
    assert writer.add(b"short", 1) == row
    assert list(table.rows()) == [(row, b"short", 1, 0, 0, -1)]
    assert segment.words[ROW_COUNT] == 1


def test_reader_that_missed_many_changes_finds_all_queues(segment: Segment) -> None:
    writer, table = QueueTableWriter(segment), QueueTable(segment)
    one = writer.add(b"t", 1)
    assert table.find(b"t", 1) == one
    two = writer.add(b"t", 2)  # one added and one freed: the row count changes once, the change counter twice
    writer.free(one)
    assert (table.find(b"t", 1), table.find(b"t", 2)) == (-1, two)
    again = writer.add(b"t", 3)  # in the freed row: the row count does not change
    three = writer.add(b"t", 4)
    assert (table.find(b"t", 3), table.find(b"t", 4), table.find(b"t", 2)) == (again, three, two) == (one, 2, 1)


def test_freeing_twice_frees_once(segment: Segment) -> None:
    writer = QueueTableWriter(segment)
    row = writer.add(b"t", 0)
    writer.free(row)
    writer.free(row)
    writer.free(CAPACITY - 1)
    assert writer.add(b"t", 1) == row
    assert writer.add(b"t", 2) == row + 1


def test_full_table_is_reported_and_stays_intact(segment: Segment) -> None:
    writer, table = QueueTableWriter(segment), QueueTable(segment)
    rows = [writer.add(b"t", queue_id) for queue_id in range(CAPACITY)]
    with pytest.raises(QueueTableFull, match="queueTableCapacity"):
        writer.add(b"one-more", 0)
    assert [table.find(b"t", queue_id) for queue_id in range(CAPACITY)] == rows
    writer.free(rows[2])
    assert writer.add(b"one-more", 0) == rows[2]


def test_topic_name_may_have_the_maximum_length_but_not_more(segment: Segment) -> None:
    writer, table = QueueTableWriter(segment), QueueTable(segment)
    longest = b"x" * TOPIC_BYTES
    neighbour = writer.add(b"n", 0)
    row = writer.add(longest, 0)
    assert table.find(longest, 0) == row
    assert table.find(b"n", 0) == neighbour
    with pytest.raises(ValueError, match="257 bytes"):
        writer.add(longest + b"x", 0)


def test_new_writer_continues_where_the_last_one_stopped(segment: Segment) -> None:
    first = QueueTableWriter(segment)
    rows = [first.add(b"t", queue_id) for queue_id in range(4)]
    first.update(rows[3], 1, 2, 3)
    first.free(rows[1])
    second = QueueTableWriter(segment)
    assert second.rows() == {(b"t", 0): rows[0], (b"t", 2): rows[2], (b"t", 3): rows[3]}
    assert second.find(b"t", 3) == rows[3]
    assert second.add(b"u", 0) == rows[1]
    assert second.add(b"u", 1) == 4


@pytest.mark.slow
def test_row_of_a_dead_writer_is_readable_and_repaired_by_the_next(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, table = QueueTableWriter(segment), QueueTable(segment)
    row = writer.add(b"t", 0)
    writer.update(row, 1, 2, 3)
    word = row_word(row)
    store_cell(segment.words, word + GENERATION, segment.words[word + GENERATION] + 1)
    store_cell(segment.words, word + MAX_QUEUE_OFFSET, 3)  # killed here
    assert table.bounds(row) == (1, 3, 3)
    with monkeypatch.context() as patched:
        patched.setattr("ipc.seqlock.PATIENCE_S", 3600)  # it is waited for once
        assert table.bounds(row) == (1, 3, 3)
    assert list(QueueTable(segment).rows()) == [(row, b"t", 0, 1, 3, 3)]
    successor = QueueTableWriter(segment)
    assert segment.words[word + GENERATION] % 2 == 0
    successor.update(row, 1, 4, 5)
    assert table.bounds(row) == (1, 4, 5)


@pytest.mark.parametrize(
    ("reuses_a_row", "stores_before_death"),
    [(False, stores) for stores in range(10)] + [(True, stores) for stores in range(9)],
)
def test_table_stays_usable_when_the_writer_is_killed_while_adding(
    segment: Segment, reuses_a_row: bool, stores_before_death: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = QueueTable(segment)
    writer = QueueTableWriter(segment)
    gone, kept = writer.add(b"gone", 9), writer.add(b"kept", 0)
    writer.update(kept, 1, 2, 3)
    if reuses_a_row:
        writer.free(gone)
    expected = {(b"kept", 0): (1, 2, 3)} | ({} if reuses_a_row else {(b"gone", 9): (0, 0, -1)})
    assert table.find(b"kept", 0) == kept
    stores = 0

    def store_or_die(words: memoryview, word: int, value: int) -> None:
        nonlocal stores
        stores += 1
        if stores > stores_before_death:
            raise KeyboardInterrupt
        words[word] = value

    monkeypatch.setattr("ipc.queue_table.store_cell", store_or_die)
    with pytest.raises(KeyboardInterrupt):
        writer.add(b"dying", 1)
    monkeypatch.undo()
    successor = QueueTableWriter(segment)
    row = successor.add(b"dying", 1)
    successor.update(row, 7, 8, 9)
    assert table.bounds(table.find(b"dying", 1)) == (7, 8, 9)
    found = {(topic, queue_id): tuple(bounds) for _, topic, queue_id, *bounds in table.rows()}
    assert found == expected | {(b"dying", 1): (7, 8, 9)}
    assert segment.words[ROW_COUNT] == (2 if reuses_a_row else 3)
    for each in range(segment.words[ROW_COUNT]):
        assert segment.words[row_word(each) + GENERATION] % 2 == 0


@pytest.mark.slow
def test_reader_never_sees_a_partial_row(
    segment: Segment, fork: Callable[[Callable[[], object]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The writer is alive, however long it waits for a processor in the middle of its row.
    monkeypatch.setattr("ipc.seqlock.PATIENCE_S", 60)
    row = QueueTableWriter(segment).add(b"t", 0)

    def write() -> None:
        writer = QueueTableWriter(segment)
        parent = os.getppid()
        value = 0
        while os.getppid() == parent:
            for _ in range(1000):
                value += 1
                writer.update(row, value, value * 2, value * 3)

    child = fork(write)
    table = QueueTable(segment)
    began = time.monotonic()
    seen = set()
    while len(seen) <= 100 or time.monotonic() < began + 0.5:
        for _ in range(200):
            minimum, maximum, physical = table.bounds(row)
            if minimum:
                assert (maximum, physical) == (minimum * 2, minimum * 3)
                seen.add(minimum)
    child.kill()
    monkeypatch.undo()
    # However it died, the row remains usable.
    QueueTableWriter(segment).update(row, 1, 2, 3)
    assert table.bounds(row) == (1, 2, 3)


def test_compiled_writer_uses_the_layout_that_readers_read(segment: Segment) -> None:
    writer, table = QueueTableWriter(segment), QueueTable(segment)
    word = row_word(writer.add(b"t", 0))
    words = writer.words
    generation = words[word + GENERATION]
    words[word + GENERATION] = generation + 1
    words[word + MIN_QUEUE_OFFSET] = 4
    words[word + MAX_QUEUE_OFFSET] = 5
    words[word + MAX_PHYSICAL_OFFSET] = 6
    words[word + GENERATION] = generation + 2
    assert table.bounds(0) == (4, 5, 6)
