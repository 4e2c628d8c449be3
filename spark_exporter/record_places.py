"""Where the records of a range lie, in the order of the files that they go to: first filled, then sorted, then asked for a file after the other.

Twenty bytes a record are kept, so that a segment of the smallest records does not take much memory either.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import groupby
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from spark_exporter.layout import Layout, Partition

COLUMNS: Final = ("topic", "store_timestamp", "commit_log_offset", "store_size")
"""What has to be known of a record."""

_TAKEN: Final = 1 << 16  # limit: places that are handed out at a time
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class FilePlaces:
    """A file's records: `count` of the sorted ones from `start` on."""

    partition: Partition
    start: int
    count: int


class RecordPlaces:
    """`add` all batches of a range, `sort`, then `of` each file."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, int], int] = {}
        """A number for each topic and day (since 1970) that has been met."""
        self._parts: list[tuple[pa.Array, pa.Array, pa.Array]] = []
        self._offsets = self._sizes = self._order = pa.array([])
        self.largest_record = 0
        """In bytes."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows of `COLUMNS`, in the log's order."""
        topics = batch["topic"].dictionary_encode()
        days = batch["store_timestamp"].cast(pa.date32()).cast(pa.int32())
        first, last = (each.as_py() for each in pc.min_max(days).values())
        span = last - first + 1
        both = topics.indices.cast(pa.int64())
        if span > 1:
            both = pc.add(pc.multiply(both, span), pc.subtract(days, first))
        both = both.dictionary_encode()
        names = topics.dictionary.to_pylist()
        keys = (
            (names[topic], first + day) for topic, day in (divmod(each, span) for each in both.dictionary.to_pylist())
        )
        numbers = [self._codes.setdefault(key, len(self._codes)) for key in keys]
        codes = pa.array(numbers, pa.int32()).take(both.indices)
        self._parts.append((codes, batch["commit_log_offset"], batch["store_size"]))
        self.largest_record = max(self.largest_record, pc.max(batch["store_size"]).as_py())

    def sort(self, layout: Layout) -> list[FilePlaces]:
        """The files, in an order that depends on the records alone. Within one, topic by topic in the log's order."""
        if not self._parts:
            return []
        codes, self._offsets, self._sizes = (pa.concat_arrays(each) for each in zip(*self._parts, strict=True))
        self._parts.clear()
        found = []
        keys = list(self._codes)
        by_code = pa.table([codes, self._sizes], ["code", "size"]).group_by("code")
        for each in by_code.aggregate([("size", "sum"), ("size", "count")]).to_pylist():
            code, log_bytes, count = each["code"], each["size_sum"], each["size_count"]
            topic, day = keys[code]
            partition = layout.partition(topic, _EPOCH + timedelta(day))
            if log_bytes < layout.small_topic_bytes:
                partition = replace(partition, group=None)
            found.append((partition.sort_key, topic, code, count, partition))
        found.sort(key=lambda each: each[:3])
        ranks = [0] * len(keys)
        for rank, (_, _, code, _, _) in enumerate(found):
            ranks[code] = rank
        # Stable, so that the log's order stays.
        self._order = pc.sort_indices(pa.array(ranks, pa.int32()).take(codes))
        files, start = [], 0
        for _, group in groupby(found, key=lambda each: each[0]):
            of_file = list(group)
            count = sum(each[3] for each in of_file)
            files.append(FilePlaces(of_file[0][4], start, count))
            start += count
        return files

    def of(self, file: FilePlaces) -> Iterator[tuple[memoryview, memoryview]]:
        """Physical offsets (native 64-bit numbers) and sizes (32-bit) of a file's records, some at a time."""
        for at in range(file.start, file.start + file.count, _TAKEN):
            some = self._order.slice(at, min(_TAKEN, file.start + file.count - at))
            yield _numbers(self._offsets.take(some), "q"), _numbers(self._sizes.take(some), "i")


def _numbers(array: pa.Array, kind: Literal["q", "i"]) -> memoryview:
    numbers: memoryview = memoryview(array.buffers()[1]).cast("B").cast(kind)
    return numbers[array.offset : array.offset + len(array)]
