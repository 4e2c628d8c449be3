"""Engine: the interface of engines, which have ranges written by workers and return the results.

It knows nothing of tables or commits. Ranges may be written in any order, and more than once; each gives exactly one result.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from spark_exporter.reading.range_scan import ByteRange
from spark_exporter.reading.segments import Segment
from spark_exporter.storage.location import Location
from spark_exporter.writing.range_files import WriteTask
from spark_exporter.writing.range_result import RangeResult


class Engine(Protocol):
    """Writes ranges. `name` is for people."""

    name: str

    @property
    def workers(self) -> int:
        """For the plan: how many ranges at a time."""
        ...

    def write(
        self, ranges: Sequence[ByteRange], task: WriteTask, report: Callable[[int], None]
    ) -> Iterator[RangeResult]:
        """The result of each range as soon as it is there, in any order. `report` is told now and then how many bytes are done in all.

        Raises what `write_range` raises, and ExportError if workers keep dying.
        """
        ...

    def check_paths(self, segments: Sequence[Segment], target: Location) -> None:
        """Look whether workers see these segments and the target where the driver does. Raises SourceError, TargetError in one line; nothing is left."""
        ...

    def close(self) -> None:
        """Let go of workers."""
        ...
