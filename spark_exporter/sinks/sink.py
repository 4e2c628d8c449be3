"""What every table format does for an export. A new format is a class with these methods and a line in `sinks.open_sink`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

import pyarrow as pa

from spark_exporter.body_schema import TableBodies
from spark_exporter.errors import TargetError
from spark_exporter.ledger import Commit, Ledger, Making
from spark_exporter.location import Location


@dataclass(frozen=True, slots=True)
class Compaction:
    """What compacting came to."""

    partitions: int = 0
    files_before: int = 0
    files_after: int = 0


class Sink(Protocol):
    """A target of one format.

    `work`: the folder in which `_export` lies. `dropped`: columns that files of this format do not have, as the partition says them.
    `bodies`: what bodies are typed with; whoever opens the sink sets it, before anything is published.
    All raise TargetError in one line if what holds the tables cannot be reached or does not fit.
    """

    format: str
    work: Location
    dropped: frozenset[str]
    writer: dict[str, Any]
    bodies: TableBodies

    def open(self, making: Making) -> None:
        """Look whether the target can be reached and is what we think. Changes nothing."""
        ...

    def find_end(self, broker_name: str) -> int | None:
        """How far the table itself says that a broker's log is in it; None if it cannot say and the manifests are to be asked."""
        ...

    def publish(self, commit: Commit, staging: Location) -> None:
        """Make a commit's rows visible. Must do what is left to do if it was begun before, and nothing if it was done."""
        ...

    def read(self, ledger: Ledger, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows of messages, of all tables, as a reader of the format sees them. Columns that a table does not have are left out."""
        ...

    def file_sizes(self, ledger: Ledger) -> list[int]:
        """Bytes of each file that now holds rows of messages."""
        ...

    def count_quarantined(self, ledger: Ledger) -> int:
        """Rows in quarantine."""
        ...

    def compact(self, ledger: Ledger, before: date, run: str) -> Compaction:
        """Put the small files of each partition before a day together. What readers see does not change."""
        ...


def move_staged(commit: Commit, staging: Location, moves: Sequence[tuple[str, Location, str]]) -> None:
    """Move staged files to where they belong: (name in `staging`, folder, name there). Those that are gone have been moved before."""
    for staged, folder, name in moves:
        if staging.exists(staged):
            staging.move_to(staged, folder, name)
        elif not folder.exists(name):
            raise TargetError(f"{folder.uri}/{name} of commit {commit.number} has been deleted before it was published")
