"""RecordPlaces: the offsets of a range's records by topic, in the order of their files.

Only eight bytes per record are kept, because a segment may have ten million small ones. So places are sorted by topic in parts, each of a range of
the log, and merged when a file is written.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from spark_exporter.writing.layout import Layout, Partition

COLUMNS: Final = ("topic", "store_timestamp", "commit_log_offset", "store_size")
"""The columns needed of a record."""

_PART: Final = 1 << 20  # limit: records per sorted part
_TAKEN: Final = 1 << 16  # limit: places returned at a time
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class FilePlaces:
    """The records of a file: those with these `codes`, topic by topic."""

    partition: Partition
    codes: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Part:
    """The places of a range of the log, sorted by code; `starts[code]` has the position and number of a code's places."""

    offsets: pa.Array
    sizes: pa.Array
    starts: dict[int, tuple[int, int]]


class RecordPlaces:
    """`add` all batches of a range, then `list_files`, then `of` each file. Offsets are kept relative to the range's start, which is `base`."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._codes: dict[tuple[str, int], int] = {}
        """The code of each topic and day (since 1970) found so far."""
        self._log_bytes: Counter[int] = Counter()
        """Of each code."""
        self._fresh: list[tuple[pa.Array, pa.Array, pa.Array]] = []
        """Codes, offsets and sizes not sorted yet."""
        self._fresh_count = 0
        self._parts: list[_Part] = []
        self.largest_record = 0
        """In bytes."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of `COLUMNS`, in log order."""
        # limit: a segment of RocketMQ's is smaller than 2 GiB.
        offsets = pc.subtract(batch["commit_log_offset"], self._base).cast(pa.uint32())
        self._fresh.append((self._codes_of(batch), offsets, batch["store_size"]))
        self._fresh_count += batch.num_rows
        self.largest_record = max(self.largest_record, pc.max(batch["store_size"]).as_py())
        if self._fresh_count >= _PART:
            self._sort()

    def _codes_of(self, batch: pa.RecordBatch) -> pa.Array:
        topics = batch["topic"].dictionary_encode()
        days = batch["store_timestamp"].cast(pa.date32()).cast(pa.int32())
        first, last = (each.as_py() for each in pc.min_max(days).values())
        span = last - first + 1
        both = topics.indices.cast(pa.int64())
        if span > 1:
            both = pc.add(pc.multiply(both, span), pc.subtract(days, first))
        both = both.dictionary_encode()
        names = topics.dictionary.to_pylist()
        pairs = (divmod(each, span) for each in both.dictionary.to_pylist())
        codes = [self._codes.setdefault((names[topic], first + day), len(self._codes)) for topic, day in pairs]
        return pa.array(codes, pa.int32()).take(both.indices)

    def _sort(self) -> None:
        """Sort the fresh places into a part."""
        codes, offsets, sizes = (pa.concat_arrays(each) for each in zip(*self._fresh, strict=True))
        self._fresh, self._fresh_count = [], 0
        by_code = pa.table([codes, sizes], ["code", "size"]).group_by("code")
        starts, start = {}, 0
        for each in by_code.aggregate([("size", "sum"), ("size", "count")]).sort_by("code").to_pylist():
            starts[each["code"]] = (start, each["size_count"])
            start += each["size_count"]
            self._log_bytes[each["code"]] += each["size_sum"]
        order = pc.sort_indices(codes)  # stable, to keep the log order
        self._parts.append(_Part(offsets.take(order), sizes.take(order), starts))

    def list_files(self, layout: Layout) -> list[FilePlaces]:
        """The files of all records added, in an order that depends only on the records."""
        if self._fresh:
            self._sort()
        files: dict[Partition, list[tuple[str, int]]] = defaultdict(list)
        for (topic, day), code in self._codes.items():
            partition = layout.partition(topic, _EPOCH + timedelta(day))
            if self._log_bytes[code] < layout.small_topic_bytes:
                partition = replace(partition, group=None)
            files[partition].append((topic, code))
        return [
            FilePlaces(partition, [code for _, code in sorted(files[partition])])
            for partition in sorted(files, key=lambda each: each.sort_key)
        ]

    def of(self, file: FilePlaces) -> Iterator[tuple[memoryview, memoryview]]:
        """Yields physical offsets (native 64-bit numbers) and sizes (32-bit) of a file's records in pieces; within a topic in log order."""
        offsets: list[pa.Array] = []
        sizes: list[pa.Array] = []
        count = 0
        for code in file.codes:
            for part in self._parts:
                start, left = part.starts.get(code, (0, 0))
                while left:
                    some = min(left, _TAKEN - count)
                    offsets.append(part.offsets.slice(start, some))
                    sizes.append(part.sizes.slice(start, some))
                    start, left, count = start + some, left - some, count + some
                    if count == _TAKEN:
                        yield self._together(offsets, sizes)
                        offsets, sizes, count = [], [], 0
        if count:
            yield self._together(offsets, sizes)

    def _together(self, offsets: list[pa.Array], sizes: list[pa.Array]) -> tuple[memoryview, memoryview]:
        places = pc.add(pa.concat_arrays(offsets).cast(pa.int64()), self._base)
        return _numbers(places, "q"), _numbers(pa.concat_arrays(sizes), "i")


def _numbers(array: pa.Array, kind: Literal["q", "i"]) -> memoryview:
    numbers: memoryview = memoryview(array.buffers()[1]).cast("B").cast(kind)
    return numbers[array.offset : array.offset + len(array)]
