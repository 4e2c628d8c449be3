"""Plain Parquet: files in folders, and manifests that list the table's files.

    [<topic>/][topic=…/]dt=…/part-….parquet      rows
    _quarantine/part-….parquet                   damage

Files are moved here from staging, each by one rename. So a reader that lists the folders sees only complete files, and after a commit exactly
those in the manifests. While a commit is being published it may see only some of its files, but never a row twice. Compaction is
the exception: for a moment the new file and the old ones exist.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_exporter.reading.schema import MESSAGES
from spark_exporter.storage.location import Location, telling
from spark_exporter.targets.ledger import FOLDER, Commit, Ledger, TargetSpec
from spark_exporter.targets.sink import Committing, Compaction, Move, move_staged
from spark_exporter.writing.body_schema import TableBodies
from spark_exporter.writing.layout import Partition, group_of, name_in_group, table_name
from spark_exporter.writing.merge_files import SMALL_BYTES, merge_files
from spark_exporter.writing.range_result import WrittenFile

QUARANTINE_FOLDER: Final = "_quarantine"


class ParquetSink:
    """A folder of Parquet files."""

    format = "parquet"

    def __init__(self, target: str) -> None:
        self.work = Location(target)
        self.dropped: frozenset[str] = frozenset()
        self.writer: dict[str, Any] = {}
        self.bodies = TableBodies()

    def open(self, spec: TargetSpec) -> None:
        """Nothing to check but the folder."""
        # As in any Hive layout, the files do not contain the columns in the folder's name.
        self.dropped = frozenset({"topic"}) if spec.layout.has_topic_folders else frozenset()

    def find_end(self, broker_name: str) -> int | None:  # noqa: ARG002  the manifests know
        """None: the manifests have it."""
        return None

    def moves(self, commit: Commit) -> list[Move]:
        """The moves to the folders that readers list."""
        return [(file.staged, self.work, _name(file)) for file in commit.files] + [
            (file.staged, self.work, _quarantine_name(file)) for file in commit.quarantine
        ]

    def has_begun(self, commit: Commit) -> bool:
        """Whether a compaction has started to delete the small files."""
        return not all(self.work.exists(_removed_name(name)) for name in commit.removed)

    def publish(self, commit: Commit, staging: Location) -> None:
        """Move the files to the folders that readers list."""
        move_staged(commit, staging, self.moves(commit))
        for name in commit.removed:
            self.work.delete(_removed_name(name))

    def read(self, ledger: Ledger, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of the files in the manifests."""
        files, _ = ledger.live_files()
        for file in files:
            yield from _read(self.work, file, columns)

    def file_sizes(self, ledger: Ledger) -> list[int]:
        """The sizes of the files in the manifests."""
        return [file.size_bytes for file in ledger.live_files()[0]]

    def count_quarantined(self, ledger: Ledger) -> int:
        """Rows of the quarantine's files."""
        _, quarantine = ledger.live_files()
        with telling(f"{self.work.uri}/{QUARANTINE_FOLDER}"):
            return sum(
                pq.ParquetFile(self.work.open_read(_quarantine_name(file))).metadata.num_rows for file in quarantine
            )

    def strays(self, ledger: Ledger) -> list[str]:
        """Parquet files that are neither in a manifest nor being published."""
        there = {name for name in self.work.list("", below=True) if name.endswith(".parquet")}
        pending = ledger.read_pending()
        files, quarantine = ledger.live_files()
        known = {_name(file) for file in files} | {_quarantine_name(file) for file in quarantine}
        if pending is not None:
            known |= {name for _, _, name in self.moves(pending)} | {_removed_name(name) for name in pending.removed}
        return sorted(name for name in there - known if not name.startswith(f"{FOLDER}/"))

    def compact(self, target: Committing, ledger: Ledger, before: date) -> Compaction:
        """One commit per partition, which replaces the small files by the merged one."""
        files, _ = ledger.live_files()
        partitions: dict[Partition, list[WrittenFile]] = defaultdict(list)
        for file in files:
            if file.partition.date < before and file.size_bytes < SMALL_BYTES:
                partitions[file.partition].append(file)
        count = files_before = files_after = 0
        for partition, small in sorted(partitions.items(), key=lambda item: item[0].folder):
            if len(small) < 2:
                continue
            last = target.last()
            assert last is not None
            folder = small[0].name.rpartition("/")[0]
            is_group = bool(group_of(small[0].name))
            merged = [
                # The name contains the run, because logs of other brokers have records at the same offsets.
                replace(
                    file,
                    name=f"{folder}/{name_in_group(f'{target.run}-{file.name}', partition.topic if is_group else None)}",
                )
                for file in merge_files(
                    self.work, [(each, _name(each)) for each in small], target.staging, self._schema(partition.table)
                )
            ]
            commit = Commit(
                last.number + 1,
                target.run,
                "compact",
                last.broker_name,
                last.progress,
                files=tuple(merged),
                removed=tuple(f"{file.table}/{file.name}" for file in small),
                token=target.token,
            )
            target.commit(commit)
            count, files_before, files_after = count + 1, files_before + len(small), files_after + len(merged)
        return Compaction(count, files_before, files_after)

    def _schema(self, table: str) -> pa.Schema:
        return pa.schema([field for field in self.bodies.schema_of(table) if field.name not in self.dropped])


def _name(file: WrittenFile) -> str:
    return f"{table_name(file.table)}/{file.name}" if file.table else file.name


def _quarantine_name(file: WrittenFile) -> str:
    return f"{QUARANTINE_FOLDER}/{file.name}"


def _removed_name(removed: str) -> str:
    table, _, rest = removed.partition("/")
    return f"{table_name(table)}/{rest}" if table else rest


def _read(work: Location, file: WrittenFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with telling(f"{work.uri}/{_name(file)}"), pq.ParquetFile(work.open_read(_name(file))) as opened:
        there = [name for name in columns if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(columns=there):
            if "topic" in columns and "topic" not in there:
                topics = pa.repeat(pa.scalar(file.topic, pa.string()), batch.num_rows)
                batch = batch.append_column(MESSAGES.field("topic"), topics)  # noqa: PLW2901
            yield batch.select([name for name in columns if name in batch.schema.names])
