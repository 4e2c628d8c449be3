"""Layout: tables, partitions and file names.

    part-<broker>-<segment>-<start>-<end>.parquet        a range's rows of one partition; a range always has the same names

A file has the rows of one UTC day (of `store_timestamp`), with `group_by_topic` also of one topic. With `table_per_topic` each topic is
a table of its own. Folders are named as in Hive, `topic=…/dt=…`; values are percent-encoded.

`small_topic_bytes` reduces the number of files: only topics with at least that much data in a range have their own file, `Orders@part-….parquet`, the
others share one, sorted by topic. Then there are no topic folders; the topic is a column, whose statistics tell readers which files to open.
"""

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Self
from urllib.parse import quote
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from spark_exporter.reading.range_scan import ByteRange
from spark_exporter.reading.schema import DATE_COLUMN

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")

_LONGEST_GROUP = 100  # limit: with the rest of the name below the limit of file systems

MAIN_TABLE = ""
"""The name of the only table, unless each topic has its own."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A table, and within it a day and possibly a topic. `group`: the topic that may have its own files in the same folder as others."""

    table: str
    topic: str | None
    date: date
    group: str | None = None

    @property
    def folder(self) -> str:
        """The path within the table's folder."""
        day = f"{DATE_COLUMN}={self.date.isoformat()}"
        return day if self.topic is None else f"topic={escape(self.topic)}/{day}"

    @property
    def sort_key(self) -> tuple[str, str, str, str]:
        """The order in which files are written and reported."""
        return self.table, self.topic or "", self.date.isoformat(), self.group or ""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a target is laid out; set when it is created."""

    group_by_topic: bool = False
    table_per_topic: bool = False
    small_topic_bytes: int = 0
    """With `group_by_topic`: the bytes of log per day that a topic must have in a range to get its own file; 0: each topic has its own folder."""

    @property
    def has_topic_folders(self) -> bool:
        """Whether the topic is a partition."""
        return self.group_by_topic and not self.small_topic_bytes

    @property
    def has_many_files(self) -> bool:
        """Whether a range has a file for each topic."""
        return self.group_by_topic or self.table_per_topic

    def partition(self, topic: str, day: date) -> Partition:
        """The partition of a topic and day. With small topics: if the topic has its own file."""
        return Partition(
            topic if self.table_per_topic else MAIN_TABLE,
            topic if self.has_topic_folders else None,
            day,
            topic if self.small_topic_bytes else None,
        )

    def split(self, batch: pa.RecordBatch) -> list[tuple[Partition, pa.RecordBatch]]:
        """Split a batch's rows by partition, each in log order."""
        if not self.has_many_files:
            return [(Partition(MAIN_TABLE, None, day), rows) for day, rows in _by_date(batch)]
        topics = batch["topic"].dictionary_encode()
        ordered = batch.take(pc.sort_indices(topics.indices))  # stable, to keep the log order
        counts = {each["values"]: each["counts"] for each in pc.value_counts(topics.indices).to_pylist()}
        parts, start = [], 0
        for code, topic in enumerate(topics.dictionary.to_pylist()):
            for day, rows in _by_date(ordered.slice(start, counts[code])):
                parts.append((self.partition(topic, day), rows))
            start += counts[code]
        return parts

    def as_json(self) -> dict[str, Any]:
        """The JSON form, stored with the target."""
        said = asdict(self)
        return said if self.small_topic_bytes else {k: v for k, v in said.items() if k != "small_topic_bytes"}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `as_json`."""
        return cls(**data)


def file_name(byte_range: ByteRange, broker_name: str) -> str:
    """The name of a range's file, the same in each of its partitions."""
    broker = escape(broker_name) or "broker"
    return f"part-{broker}-{byte_range.segment.base:020}-{byte_range.start:020}-{byte_range.end:020}.parquet"


def name_in_group(name: str, group: str | None) -> str:
    """The name of a file with rows of one topic only, in a folder that other topics share."""
    if group is None:
        return name
    plain = table_name(group)
    if len(plain) > _LONGEST_GROUP:
        plain = f"{plain[:_LONGEST_GROUP]}~{crc32(group.encode()):08x}"
    return f"{plain}@{name}"


def group_of(name: str) -> str:
    """The prefix that `name_in_group` adds to a file's name; empty for a shared file."""
    return name.rpartition("/")[2].rpartition("@")[0]


def escape(text: str) -> str:
    """A value encoded for a folder's name, as in Hive."""
    return quote(text, safe="")


def table_name(topic: str) -> str:
    """A topic as the name of a table or its folder: bytes other than letters, digits, underscore and hyphen become ~ and two hexadecimal digits.

    Not a percent sign, because software that accepts a table's URL would decode it.
    """
    return "".join(chr(byte) if chr(byte) in _PLAIN else f"~{byte:02x}" for byte in topic.encode())


def _by_date(batch: pa.RecordBatch) -> list[tuple[date, pa.RecordBatch]]:
    dates = batch["store_timestamp"].cast(pa.date32())
    least, most = (value.as_py() for value in pc.min_max(dates).values())
    if least == most:
        return [(least, batch)]
    return [(day, batch.filter(pc.equal(dates, pa.scalar(day)))) for day in sorted(pc.unique(dates).to_pylist())]
