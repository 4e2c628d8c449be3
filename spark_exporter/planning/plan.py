"""Plan: the part of the log that an export reads, divided into ranges for workers.

    store = open_source(Path("/var/lib/headrace"))         the segments, without those only reserved
    end = store.find_end(from_offset, flushed_offset)      how far the log goes
    plan = store.plan(from_offset, end, workers=8)         ranges, in the order of the log

For the Spark side: `partitions()` of a batch reader is `plan(...).ranges`; a stream's offset is `{"phy": end}`, and the partitions between two offsets are
`plan(start, end, ...)`. A range's `start` is a record's begin: the first one's because the caller says so (a segment's base, or where an earlier plan
ended), the others' because of what `range_scan` calls landing; a reader that cannot check the chain afterwards (a data source) asks for
`certain=True`, which cuts at segments only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from headrace.protocol.big_endian import load_i32, load_i64
from headrace.protocol.record import check_record
from headrace.protocol.record_layout import (
    PHYSICAL_OFFSET_AT,
    PHYSICAL_OFFSET_END,
    RECORD_OVERHEAD,
    SYS_FLAG_AT,
    TOTAL_SIZE_AT,
    store_timestamp_at,
)
from spark_exporter.errors import SourceError
from spark_exporter.planning.log_end import find_record_from, find_record_since, find_settled_end, written_segments
from spark_exporter.planning.queue_cuts import QueueCuts
from spark_exporter.planning.shares import even_parts
from spark_exporter.reading.next_record import find_next_record
from spark_exporter.reading.range_scan import ByteRange
from spark_exporter.reading.segments import Segment, find_commit_log, list_segments, open_segment, read_some

LEAST_RANGE_BYTES: Final = 64 << 20
"""# limit: smaller ranges make many small files, and the fixed cost of a task matters."""

_HEAD_WITH_TIME: Final = RECORD_OVERHEAD  # contains the store timestamp whatever the hosts


@dataclass(frozen=True, slots=True)
class Plan:
    """Ranges in the order of the log, without overlap. `start` to `end`: what they cover; where segments are missing there is a hole."""

    ranges: tuple[ByteRange, ...]
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""
        return sum(each.size_bytes for each in self.ranges)


@dataclass(frozen=True, slots=True)
class Source:
    """The source store. `segments`: those with records; `consume_queue`: the folder, if there is one beside the log."""

    commit_log: Path
    consume_queue: Path
    segments: tuple[Segment, ...]

    @property
    def first_offset(self) -> int:
        """The beginning of the log. Raises SourceError if there are no records."""
        return self._some_segments()[0].base

    def find_end(self, known_offset: int | None = None, flushed_offset: int | None = None) -> int:
        """The end of the readable log.

        `flushed_offset`: the durable end reported by the store's broker. `known_offset`: a record begins or the log ends there
        (where an earlier export stopped): the last segment is scanned from it on.
        """
        if not self.segments:
            return known_offset or 0
        last = self.segments[-1]
        if flushed_offset is not None:
            return max(known_offset or self.first_offset, min(flushed_offset, last.end))
        if known_offset is not None and known_offset >= last.end:
            return last.end
        return find_settled_end(last, max(last.base, known_offset or 0))

    def holds(self, physical_offset: int, store_timestamp_ms: int) -> bool:
        """Whether the record with this store timestamp is at an offset; true if the segment has been deleted."""
        for segment in self.segments:
            if segment.base <= physical_offset < segment.end:
                with open_segment(segment) as descriptor:
                    return (
                        _is_record(descriptor, segment, physical_offset, segment.end)
                        and _store_timestamp(descriptor, segment, physical_offset) == store_timestamp_ms
                    )
        return True

    def find_record_from(self, physical_offset: int, end: int) -> int:
        """The first record at or after any offset."""
        for segment in self._some_segments():
            if physical_offset < segment.end:
                return min(end, find_record_from(segment, physical_offset, min(segment.end, end)))
        return end

    def find_record_since(self, timestamp_ms: int, end: int) -> int:
        """The first record with at least this store timestamp, in ms."""
        return find_record_since(self._some_segments(), timestamp_ms, end)

    def plan(
        self,
        start: int,
        end: int,
        workers: int = 1,
        *,
        certain: bool = False,
        least_range_bytes: int = LEAST_RANGE_BYTES,
    ) -> Plan:
        """The ranges from `start`, where a record begins or that is in no segment, to `end`.

        Whole segments if they make even shares of the work, otherwise some are cut (`shares`). `certain`: none is cut.
        """
        ranges = [
            ByteRange(segment, max(start, segment.base), min(end, segment.end), min(end, segment.end))
            for segment in self.segments
            if max(start, segment.base) < min(end, segment.end)
        ]
        if not certain and ranges:
            parts = even_parts([each.size_bytes for each in ranges], workers, least_range_bytes)
            if max(parts) > 1:
                cuts = QueueCuts(self.consume_queue)
                ranges = [part for whole, count in zip(ranges, parts, strict=True) for part in _cut(whole, count, cuts)]
        return Plan(tuple(ranges), start, end)

    def _some_segments(self) -> Sequence[Segment]:
        if not self.segments:
            raise SourceError(f"{self.commit_log} contains no records; check the path")
        return self.segments


def open_source(path: Path) -> Source:
    """The store at a path: its root, an appliance's data folder, or a folder of segments alone. Raises SourceError."""
    commit_log = find_commit_log(path).absolute()  # workers on other machines have other current folders
    return Source(commit_log, commit_log.parent / "consumequeue", tuple(written_segments(list_segments(commit_log))))


def join(ranges: Sequence[ByteRange]) -> ByteRange:
    """Joins adjacent ranges of a segment after a cut between them has proved false."""
    return ByteRange(ranges[0].segment, ranges[0].start, ranges[-1].end, ranges[-1].limit)


def _cut(whole: ByteRange, parts: int, cuts: QueueCuts) -> list[ByteRange]:
    if parts < 2:
        return [whole]
    places = [whole.start]
    with open_segment(whole.segment) as descriptor:
        for part in range(1, parts):
            wanted = whole.start + whole.size_bytes * part // parts
            found = cuts.find(wanted, min(whole.end, wanted + whole.size_bytes // parts))
            if found is None or not _is_record(descriptor, whole.segment, found, whole.limit):
                found = find_next_record(descriptor, whole.segment, wanted, whole.limit)
            if found is not None and places[-1] < found < whole.end:
                places.append(found)
    places.append(whole.end)
    return [ByteRange(whole.segment, start, end, whole.limit) for start, end in pairwise(places)]


def _store_timestamp(descriptor: int, segment: Segment, offset: int) -> int:
    data = read_some(descriptor, segment, offset, _HEAD_WITH_TIME)
    return load_i64(data, store_timestamp_at(load_i32(data, SYS_FLAG_AT)))


def _is_record(descriptor: int, segment: Segment, offset: int, limit: int) -> bool:
    head = read_some(descriptor, segment, offset, PHYSICAL_OFFSET_END)
    size = load_i32(head, TOTAL_SIZE_AT)
    if len(head) < PHYSICAL_OFFSET_END or not PHYSICAL_OFFSET_END < size <= limit - offset:
        return False
    if load_i64(head, PHYSICAL_OFFSET_AT) != offset:
        return False
    return check_record(read_some(descriptor, segment, offset, size), check_crc=False) == (True, size)
