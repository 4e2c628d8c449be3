import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from ipc.changed_rows import ANNOUNCED, COUNT, ChangedRowsReader, ChangedRowsWriter, format_changed_rows, size_bytes
from ipc.posix import Segment, anonymous_segment

CAPACITY = 8


@pytest.fixture
def segment() -> Segment:
    segment = anonymous_segment(size_bytes(CAPACITY))
    format_changed_rows(segment, "00c0ffee", CAPACITY)
    return segment


def test_reader_takes_each_row_once_in_order(segment: Segment) -> None:
    writer = ChangedRowsWriter(segment)
    reader = ChangedRowsReader(segment)
    assert reader.take() == []
    writer.add([3, 1, 2])
    assert reader.take() == [3, 1, 2]
    assert reader.take() == []


def test_rows_are_complete_across_the_end_of_the_ring(segment: Segment) -> None:
    writer = ChangedRowsWriter(segment)
    reader = ChangedRowsReader(segment)
    expected = 0
    for length in (5, 7, 8, 1, 8, 3, 8):
        rows = list(range(expected, expected + length))
        writer.add(rows)
        assert reader.take() == rows
        expected += length


def test_reader_is_lapped_only_beyond_a_full_ring(segment: Segment) -> None:
    writer = ChangedRowsWriter(segment)
    reader = ChangedRowsReader(segment)
    writer.add(range(CAPACITY))
    assert reader.take() == list(range(CAPACITY))
    writer.add(range(CAPACITY))
    writer.add([9])
    assert reader.take() is None
    assert reader.take() == []


def test_lapped_reader_continues_with_new_rows(segment: Segment) -> None:
    writer = ChangedRowsWriter(segment)
    reader = ChangedRowsReader(segment)
    writer.add(range(100))
    assert reader.take() is None
    writer.add([4, 5])
    assert reader.take() == [4, 5]


def test_each_reader_has_its_own_position(segment: Segment) -> None:
    writer = ChangedRowsWriter(segment)
    early = ChangedRowsReader(segment)
    writer.add([1])
    late = ChangedRowsReader(segment)
    writer.add([2])
    assert (early.take(), late.take()) == ([1, 2], [2])


def test_reader_of_rows_being_overwritten_is_lapped(segment: Segment) -> None:
    writer = ChangedRowsWriter(segment)
    reader = ChangedRowsReader(segment)
    writer.add(range(CAPACITY))
    segment.words[ANNOUNCED] += 1  # the writer has begun the next word, which overwrites the reader's first
    assert reader.take() is None


def test_new_writer_laps_all_readers(segment: Segment) -> None:
    ChangedRowsWriter(segment)
    reader = ChangedRowsReader(segment)
    segment.words[ANNOUNCED] += 3  # killed between the announcement and the count
    successor = ChangedRowsWriter(segment)
    assert reader.take() is None
    successor.add([6])
    assert reader.take() == [6]
    assert segment.words[ANNOUNCED] == segment.words[COUNT]


@pytest.mark.slow
def test_reader_beside_a_fast_writer_misses_nothing_unnoticed(
    fork: Callable[[Callable[[], object]], Any],
) -> None:
    segment = anonymous_segment(size_bytes(1024))
    format_changed_rows(segment, "00c0ffee", 1024)

    def write() -> None:
        writer = ChangedRowsWriter(segment)
        parent = os.getppid()
        value = 0
        while os.getppid() == parent:
            for length in (1, 2, 5, 300):
                writer.add(range(value, value + length))
                value += length

    reader = ChangedRowsReader(segment)
    fork(write)
    last = None
    taken = laps = 0
    deadline = time.monotonic() + 120
    while taken < 50_000:
        assert time.monotonic() < deadline, f"{taken} rows taken, {laps} laps"
        rows = reader.take()
        if rows is None:
            laps += 1
            last = None
            continue
        for row in rows:
            assert last is None or row == last + 1
            last = row
            taken += 1
    assert laps > 0  # the start of a new writer counts as one
