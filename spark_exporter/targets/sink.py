"""Sink: the interface of table formats. A new format is a class with these methods and a line in `open_sink`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

import pyarrow as pa

from spark_exporter.errors import TargetError
from spark_exporter.storage.location import Location
from spark_exporter.targets.ledger import Commit, Ledger, TargetSpec
from spark_exporter.writing.body_schema import TableBodies

Move = tuple[str, Location, str]
"""A staged file's name in staging, and the folder and name where it belongs."""


class Committing(Protocol):
    """The run that compacts, as its sink needs it: see `OwnedTarget`."""

    run: str

    @property
    def token(self) -> int:
        """For commits."""
        ...

    @property
    def staging(self) -> Location:
        """Where merged files are written."""
        ...

    def last(self) -> Commit | None:
        """The last commit."""
        ...

    def commit(self, commit: Commit) -> None:
        """Decide, publish, finish."""
        ...


@dataclass(frozen=True, slots=True)
class Compaction:
    """What compacting came to."""

    partitions: int = 0
    files_before: int = 0
    files_after: int = 0


class Sink(Protocol):
    """A target of one format.

    `work`: the folder in which `_export` is. `dropped`: columns that files of this format do not have, as the partition says them.
    `bodies`: what bodies are typed with; whoever opens the sink sets it, before anything is published.
    All raise TargetError in one line if what holds the tables cannot be reached or does not fit.
    """

    format: str
    work: Location
    dropped: frozenset[str]
    writer: dict[str, Any]
    bodies: TableBodies

    def open(self, spec: TargetSpec) -> None:
        """Look whether the target can be reached and is what we think. Changes nothing."""
        ...

    def find_end(self, broker_name: str) -> int | None:
        """How far the table itself says that a broker's log is in it; None if it cannot say and the manifests are to be asked."""
        ...

    def moves(self, commit: Commit) -> list[Move]:
        """Where a commit's files go. Makes tables that are missing."""
        ...

    def has_begun(self, commit: Commit) -> bool:
        """Whether a commit whose files are gone has done what cannot be taken back."""
        ...

    def publish(self, commit: Commit, staging: Location) -> None:
        """Make a commit's rows visible. Must do what is left to do if it was begun before, and nothing if it was done."""
        ...

    def read(self, ledger: Ledger, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows of messages, of all tables, as a reader of the format sees them. Columns that a table does not have are skipped."""
        ...

    def file_sizes(self, ledger: Ledger) -> list[int]:
        """Bytes of each file that now holds rows of messages."""
        ...

    def count_quarantined(self, ledger: Ledger) -> int:
        """Rows in quarantine."""
        ...

    def strays(self, ledger: Ledger) -> list[str]:
        """Files that belong to no commit, but that readers which list the folder would read."""
        ...

    def compact(self, target: Committing, ledger: Ledger, before: date) -> Compaction:
        """Put the small files of each partition before a day together. What readers see does not change."""
        ...


def move_staged(commit: Commit, staging: Location, moves: Sequence[Move]) -> None:
    """Move staged files to where they belong. Those that are gone have been moved before, or are just being moved by the run that continued."""
    for staged, folder, name in moves:
        try:
            if staging.exists(staged):
                staging.move_to(staged, folder, name)
                continue
        except FileNotFoundError:
            pass
        if not folder.exists(name):
            raise TargetError(
                f"{folder.uri}/{name} of commit {commit.number} was deleted before it was published; run the export again"
            )


def find_lost(moves: Sequence[Move], staging: Location) -> list[str]:
    """The names of files that are neither staged nor where they belong."""
    staged = staging.sizes()
    return [name for each, folder, name in moves if each not in staged and not folder.exists(name)]


def withdraw(moves: Sequence[Move], staging: Location, confirm: Callable[[], None]) -> None:
    """Delete a commit's files. `confirm` raises if the target is no longer ours: then others may have made files of the same names."""
    for staged, _, _ in moves:  # order: what is staged could still be moved by a run that has slept
        staging.delete(staged)
    for _, folder, name in moves:
        confirm()
        folder.delete(name)
