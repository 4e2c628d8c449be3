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
"""A staged file's name in staging, and its final folder and name."""


class Committing(Protocol):
    """The interface of a compacting run that its sink uses: see `OwnedTarget`."""

    run: str

    @property
    def token(self) -> int:
        """The token for commits."""
        ...

    @property
    def staging(self) -> Location:
        """The folder for merged files."""
        ...

    def last(self) -> Commit | None:
        """The last commit."""
        ...

    def commit(self, commit: Commit) -> None:
        """Decide, publish and finish a commit."""
        ...


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of compacting."""

    partitions: int = 0
    files_before: int = 0
    files_after: int = 0


class Sink(Protocol):
    """A target of one format.

    `work`: the folder that contains `_export`. `dropped`: columns that files of this format do not have because the partition implies them.
    `bodies`: the schemas of typed bodies; set by the opener of the sink before anything is published.
    All methods raise TargetError in one line if the tables cannot be reached or do not match.
    """

    format: str
    work: Location
    dropped: frozenset[str]
    writer: dict[str, Any]
    bodies: TableBodies

    def open(self, spec: TargetSpec) -> None:
        """Check that the target can be reached and matches. Changes nothing."""
        ...

    def find_end(self, broker_name: str) -> int | None:
        """How far a broker's log is in the table, according to the table itself; None if only the manifests have it."""
        ...

    def moves(self, commit: Commit) -> list[Move]:
        """The moves of a commit's files. Creates missing tables."""
        ...

    def has_begun(self, commit: Commit) -> bool:
        """Whether a commit whose files are lost has already changed the table irrevocably."""
        ...

    def publish(self, commit: Commit, staging: Location) -> None:
        """Make a commit's rows visible. Completes a publication that was started before; does nothing if it was completed."""
        ...

    def read(self, ledger: Ledger, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows of messages of all tables, as a reader of the format sees them. Columns that a table does not have are left out."""
        ...

    def file_sizes(self, ledger: Ledger) -> list[int]:
        """The size of each current file of messages."""
        ...

    def count_quarantined(self, ledger: Ledger) -> int:
        """Rows in quarantine."""
        ...

    def strays(self, ledger: Ledger) -> list[str]:
        """Files that belong to no commit, but that readers which list the folder would read."""
        ...

    def compact(self, target: Committing, ledger: Ledger, before: date) -> Compaction:
        """Merge the small files of each partition before a day. Readers see the same rows."""
        ...


def move_staged(commit: Commit, staging: Location, moves: Sequence[Move]) -> None:
    """Move staged files to their final places. Missing ones have been moved before, or are being moved by a later run."""
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
    """The names of files that are neither in staging nor in their final places."""
    staged = staging.sizes()
    return [name for each, folder, name in moves if each not in staged and not folder.exists(name)]


def withdraw(moves: Sequence[Move], staging: Location, confirm: Callable[[], None]) -> None:
    """Delete a commit's files. `confirm` raises if the target is no longer ours: then another run may have created files of the same names."""
    for staged, _, _ in moves:  # order: staged files could still be moved by a run that was paused
        staging.delete(staged)
    for _, folder, name in moves:
        confirm()
        folder.delete(name)
