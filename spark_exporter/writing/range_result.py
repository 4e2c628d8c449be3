"""RangeResult: the result of writing one range, from worker to driver and into the manifest."""

from dataclasses import asdict, dataclass
from datetime import date as calendar_date
from typing import Any, Self

from spark_exporter.reading.range_scan import ByteRange
from spark_exporter.writing.layout import Partition


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of one partition. `staged`: its name in staging; `name`: its final name, within its table; both relative to their folders."""

    table: str
    topic: str | None
    date: str
    name: str
    staged: str
    rows: int
    size_bytes: int
    first_offset: int
    last_offset: int
    first_store_ms: int
    last_store_ms: int

    @property
    def partition(self) -> Partition:
        """Its partition."""
        return Partition(self.table, self.topic, calendar_date.fromisoformat(self.date))


@dataclass(frozen=True, slots=True)
class RangeResult:
    """The result of a written range. `landed` determines whether it is valid: see `range_scan`."""

    segment: int
    start: int
    end: int
    landed: int
    records: int
    rows: int
    damaged: int
    files: tuple[WrittenFile, ...]
    quarantine: WrittenFile | None
    last_store_ms: int
    last_record: int
    """The offset of the last good record, -1 if there was none."""
    unfit: int = 0
    """Number of rows whose bodies do not match their schema."""

    def is_of(self, byte_range: ByteRange) -> bool:
        """Whether this is the result of that range, and it ends where the next one begins."""
        return self.start == byte_range.start and self.end == byte_range.end == self.landed

    def as_json(self) -> dict[str, Any]:
        """The JSON form, for a manifest or a row of strings in Spark."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `as_json`."""
        quarantine = data["quarantine"]
        return cls(
            **{
                **data,
                "files": tuple(WrittenFile(**each) for each in data["files"]),
                "quarantine": None if quarantine is None else WrittenFile(**quarantine),
            }
        )
