"""Engine: the interface of engines, which write ranges in worker processes and return the results.

Engines do not depend on tables or commits. Ranges may be written in any order and more than once; each has exactly one result.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from spark_exporter.reading.range_scan import ByteRange
from spark_exporter.reading.segments import Segment
from spark_exporter.storage.location import Location
from spark_exporter.writing.range_files import WriteTask
from spark_exporter.writing.range_result import RangeResult


class Engine(Protocol):
    """Writes ranges. `name` is shown to users."""

    name: str

    @property
    def workers(self) -> int:
        """How many ranges are written at a time; the plan uses it."""
        ...

    def write(
        self, ranges: Sequence[ByteRange], task: WriteTask, report: Callable[[int], None]
    ) -> Iterator[RangeResult]:
        """Yields the result of each range as soon as it is complete, in any order. `report` is called from time to time with the total of bytes done.

        Raises what `write_range` raises, and ExportError if workers keep dying.
        """
        ...

    def check_paths(self, segments: Sequence[Segment], target: Location) -> None:
        """Check that workers can access these segments and the target at the driver's paths. Raises SourceError, TargetError in one line. Leaves no files behind."""
        ...

    def close(self) -> None:
        """Release the workers."""
        ...
