"""Reads one range topic by topic, for files of one topic each.

Reads it twice: first, as `RangeScan` does, to find each topic's records; then in the order of the files, record by record from the page cache. So it never
needs thousands of open files, or their rows in memory at once.
"""

from collections.abc import Iterator
from dataclasses import replace

from spark_exporter.errors import SourceError
from spark_exporter.reading.gather_records import gather
from spark_exporter.reading.range_scan import (
    WINDOW,
    ByteRange,
    RangeScan,
    ScanOptions,
    Window,
    read_damage,
    record_columns_of,
    window_of,
)
from spark_exporter.reading.record_columns import END, FULL, RecordColumns
from spark_exporter.reading.segments import open_segment
from spark_exporter.writing.layout import Layout, Partition
from spark_exporter.writing.record_places import COLUMNS, RecordPlaces


class TopicScan:
    """One scan of a range. `first` is the scan in log order: it has the end of the last record, and what was skipped. Once `windows` has ended, `rows`
    and `damaged` are complete.
    """

    def __init__(self, byte_range: ByteRange, options: ScanOptions, layout: Layout) -> None:
        self._range = byte_range
        self._options = options
        self._layout = layout
        self.first = RangeScan(byte_range, replace(options, columns=COLUMNS))
        self.done_bytes = 0
        """Bytes read the second time."""
        self.rows = 0
        self.damaged = 0

    def windows(self) -> Iterator[tuple[Partition | None, Window]]:
        """Yields all rows of one partition, then all of the next, each in log order. Damaged parts come first, without a partition.

        Rows that cannot be decompressed are found to be damaged later. Raises SourceError, and DamagedRecords in strict mode.
        """
        places = RecordPlaces(self._range.start)
        for window in self.first.windows():
            if window.damage:
                yield None, replace(window, rows=None)
            if window.rows is not None:
                places.add(window.rows)
        self.damaged = self.first.damaged
        columns = record_columns_of(self._options, room_bytes=WINDOW)
        memory = memoryview(bytearray(max(WINDOW, places.largest_record)))
        with open_segment(self._range.segment) as descriptor:
            for file in places.list_files(self._layout):
                for offsets, sizes in places.of(file):
                    for window in self._read(descriptor, columns, memory, offsets, sizes):
                        yield file.partition, window

    def _read(
        self, descriptor: int, columns: RecordColumns, memory: memoryview, offsets: memoryview, sizes: memoryview
    ) -> Iterator[Window]:
        """Yields the records at these places, in this order."""
        options, segment = self._options, self._range.segment
        number = gathered = 0
        while gathered < len(offsets):
            gathered, length = gather(descriptor, segment, memory, offsets, sizes, gathered)
            position = 0
            while position < length:
                answer = columns.decode_gathered(memory[:length], position, offsets, number, self._range.limit)
                if answer not in {END, FULL}:
                    raise SourceError(
                        f"{segment.path} was changed while it was read; run the export again: {columns.reason}"
                    )
                number, position = number + columns.records, columns.position
                damage = [read_damage(descriptor, segment, options, *each) for each in columns.damaged]
                self.damaged += len(damage)
                self.rows += columns.rows
                yield window_of(columns, options, damage)
            self.done_bytes += length
