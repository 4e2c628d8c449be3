"""The end of a log's records, and the record at an offset or a time.

A segment followed by another one with records is sealed: it is read to its end, and a hole in it is damage. In the last one the records end
at the first invalid bytes. Nothing is searched beyond: records discarded by a broker's recovery may still be there, complete, but are no longer
part of the log. Records with torn bodies at the very end are also excluded: they were being written at a power cut.

On a store in use the end is the flushed offset, if the broker reports it; see `plan`.
"""

from collections.abc import Sequence
from typing import Final

from spark_exporter.reading import record_columns
from spark_exporter.reading.range_scan import WINDOW, ByteRange, RangeScan, ScanOptions
from spark_exporter.reading.record_choice import RecordChoice
from spark_exporter.reading.record_columns import RecordColumns
from spark_exporter.reading.segments import Segment, has_records, open_segment, read_into

_EVERYTHING: Final = RecordChoice(include_system=True)


def written_segments(segments: Sequence[Segment]) -> list[Segment]:
    """The segments without those at the end that are only reserved."""
    count = len(segments)
    while count and not has_records(segments[count - 1]):
        count -= 1
    return list(segments[:count])


def find_settled_end(segment: Segment, start: int) -> int:
    """The end of the records in the last segment, or its own end if a blank record closes it. A record, or that end, is at `start`."""
    position = start
    torn_from: int | None = None  # the first of the damaged records at the end
    columns = RecordColumns(_EVERYTHING.is_wanted, with_body=False, with_properties=False)
    with open_segment(segment) as descriptor:
        answer, needed = record_columns.END, 0
        while position < segment.end and answer in {record_columns.END, record_columns.MORE, record_columns.FULL}:
            window = memoryview(bytearray(min(max(WINDOW, needed), segment.end - position)))
            read_into(descriptor, segment, window, position)
            answer = columns.decode(window, position, 0, len(window), segment.end)
            needed = columns.needed if answer == record_columns.MORE else 0
            position += columns.position
            torn_from = _torn_from(torn_from, columns, position)
    if answer == record_columns.BLANK:
        return segment.end
    return position if torn_from is None else torn_from


def _torn_from(before: int | None, columns: RecordColumns, position: int) -> int | None:
    if not columns.damaged:
        return None if columns.records else before
    first = position
    for offset, size, _ in reversed(columns.damaged):
        if offset + size != first:
            break
        first = offset
    if first == position:
        return None
    # This window had only damaged records, which continue those before.
    return before if before is not None and columns.records == len(columns.damaged) else first


def find_record_from(segment: Segment, offset: int, limit: int) -> int:
    """The offset of the first record at or after `offset`; `limit` if there is none."""
    if offset <= segment.base:
        return segment.base
    scan = RangeScan(ByteRange(segment, segment.base, min(offset, limit), limit), ScanOptions(columns=()))
    for _ in scan.batches():
        pass
    return scan.landed


def find_record_since(segments: Sequence[Segment], timestamp_ms: int, log_end: int) -> int:
    """The offset of the first record with at least this store timestamp; `log_end` if there is none.

    Store timestamps increase with the log, except where a clock was set back.
    """
    first = 0
    last = len(segments) - 1
    while first < last:
        middle = (first + last + 1) // 2
        found = _first_since(segments[middle], -(1 << 62), log_end)
        if found is not None and found[1] >= timestamp_ms:
            last = middle - 1
        else:
            first = middle
    for segment in segments[first:]:
        found = _first_since(segment, timestamp_ms, log_end)
        if found is not None:
            return found[0]
    return log_end


def _first_since(segment: Segment, timestamp_ms: int, log_end: int) -> tuple[int, int] | None:
    """Offset and store timestamp of a segment's first record of this time or later."""
    limit = min(segment.end, log_end)
    if limit <= segment.base:
        return None
    options = ScanOptions(
        choice=RecordChoice(include_system=True, first_ms=timestamp_ms),
        columns=("commit_log_offset", "store_timestamp"),
    )
    window = 64 << 10 if timestamp_ms < 0 else WINDOW
    for batch in RangeScan(ByteRange(segment, segment.base, limit, limit), options, window).batches():
        return batch[0][0].as_py(), batch[1][0].value // 1000
    return None
