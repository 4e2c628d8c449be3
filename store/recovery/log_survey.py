"""Reads the newest files of the log once: finds its end, and records without ConsumeQueue entries.

The entry of a record is missing if the record is beyond the last one in its queue. If the first such record is not the queue's next
one, older entries are also lost: the queue has a gap, and the log must be dispatched again from an earlier offset.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from store.commit_log.record_check import (
    BLANK,
    REASONS,
    check_record,
    queue_key_at,
    queue_offset_of,
    store_timestamp_of,
    topic_of,
    walk_known,
)
from store.commit_log.scanner import LogSource


class QueueTail(NamedTuple):
    """The state of a queue's files: the offset of its next entry, and the end of the last record with an entry (-1: none)."""

    next_offset: int
    max_physical_offset: int


class Survey(Struct):
    """The result. Offsets are -1 if there is none."""

    end_offset: int
    reason: str = "last file"
    records: int = 0
    last_timestamp: int = -1
    first_missing: int = -1
    gaps: dict[bytes, int] = field(default_factory=dict)
    """For each queue with a gap, the first missing queue offset."""


NO_TAIL = QueueTail(0, -1)


def survey_log(
    source: LogSource,
    start: int,
    tails: Mapping[bytes, QueueTail],
    is_known: Callable[[bytes], bool],
    check_crc: bool,
    beat: Callable[[], None] = lambda: None,
    deleted: Mapping[bytes, int] | None = None,
) -> Survey:
    """Walks from `start`, where a record or blank begins, to the first bytes that are neither.

    Queues of topics that are not known lack nothing. Neither do queues of `deleted` topics lack records below the topic's physical
    offset. `beat` is called once a file.
    """
    deleted = deleted or {}
    found = Survey(start)
    seen: set[bytes] = set()
    offset = start
    while (file := source.file_for(offset)) is not None:
        beat()
        view, begin, limit = file.view, file.start_offset, file.size_bytes
        position, last = offset - begin, -1
        while True:
            position, size, records, walked = walk_known(view, position, limit, begin, check_crc, seen)
            found.records += records
            last = walked if records else last
            if size <= 0:
                break
            key = queue_key_at(view, position)
            if key is not None:
                tail = tails.get(key, NO_TAIL)
                if begin + position >= max(tail.max_physical_offset, deleted.get(topic_of(key), 0) if deleted else 0):
                    seen.add(key)
                    if is_known(topic_of(key)):
                        _note_missing(found, key, tail, begin + position, view, position)
            found.records += 1
            last = position
            position += size
        if last >= 0:
            found.last_timestamp = store_timestamp_of(view, last)
        found.end_offset = begin + position
        if size != BLANK:
            found.reason = REASONS[size]
            break
        found.end_offset = offset = file.end_offset
    return found


def find_older(
    source: LogSource,
    file_starts: list[int],
    gaps: Mapping[bytes, int],
    beat: Callable[[], None] = lambda: None,
    deleted: Mapping[bytes, int] | None = None,
) -> int:
    """The offset of the first record that one of the gaps lacks, looking back file by file; -1 if no file has any.

    Records of `deleted` topics below the topic's physical offset do not count. `file_starts` are those before the survey's first file, in order. Stops where all gaps are explained.
    """
    open_gaps = dict(gaps)
    deleted_below = {key: (deleted or {}).get(topic_of(key), 0) for key in gaps}
    found = -1
    for start in reversed(file_starts):
        if not open_gaps:
            break
        beat()
        file = source.file_for(start)
        if file is None:
            break
        position = 0
        first_of: dict[bytes, int] = {}
        first_offset = -1
        while (size := check_record(file.view, position, file.size_bytes, start + position, check_crc=False)) > 0:
            key = queue_key_at(file.view, position)
            if key in open_gaps and start + position >= deleted_below[key]:
                queue_offset = queue_offset_of(file.view, position)
                if queue_offset >= open_gaps[key]:
                    first_of.setdefault(key, queue_offset)
                    if first_offset < 0:
                        first_offset = start + position
            position += size
        if first_offset >= 0:
            found = first_offset
        for key, queue_offset in first_of.items():
            if queue_offset <= open_gaps[key]:
                del open_gaps[key]
    return found


def _note_missing(
    found: Survey, key: bytes, tail: QueueTail, physical_offset: int, view: memoryview, position: int
) -> None:
    if found.first_missing < 0:
        found.first_missing = physical_offset
    queue_offset = queue_offset_of(view, position)
    if queue_offset > tail.next_offset:
        found.gaps[key] = tail.next_offset
