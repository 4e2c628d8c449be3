"""Delta tables, with deltalake (no Java).

The files are in the table's folder, as with any Delta writer. A commit adds them to the table's log together with an application transaction whose
version is the exported physical offset. Delta accepts the same transaction twice, so the version is checked before.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, Final

import pyarrow as pa

from spark_exporter.errors import MissingPackage, TargetError, TargetMismatch
from spark_exporter.fault_point import fault_point
from spark_exporter.reading.schema import BODY_COLUMN, DATE_COLUMN, MESSAGES, QUARANTINE
from spark_exporter.storage.location import Location, telling
from spark_exporter.targets.ledger import Commit, Ledger, TargetSpec
from spark_exporter.targets.sink import Committing, Compaction, Move, move_staged
from spark_exporter.writing.body_schema import TableBodies
from spark_exporter.writing.layout import group_of, table_name
from spark_exporter.writing.range_result import WrittenFile

try:
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake.exceptions import DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction
except ImportError:
    raise MissingPackage(
        "Delta tables require the package deltalake; run in Headrace's virtual environment: pip install 'headrace-appliance[delta]'. "
        "The Debian and RPM packages export to Parquet only"
    ) from None

QUARANTINE_TABLE: Final = "_quarantine"
_DATE: Final = pa.field(DATE_COLUMN, pa.date32())


class DeltaSink:
    """A Delta table, or a folder of Delta tables if each topic has its own."""

    format = "delta"

    def __init__(self, target: str) -> None:
        self.work = Location(target)
        self.dropped: frozenset[str] = frozenset()
        self.writer: dict[str, Any] = {}
        self.bodies = TableBodies()
        self._partition_by = [DATE_COLUMN]
        self._has_many = False
        self._options = {
            "AWS_ENDPOINT_URL" if name == "endpoint" else f"AWS_{name.upper()}": value
            for name, value in self.work.s3_options().items()
        }
        if self._options.get("AWS_ENDPOINT_URL", "").startswith("http://"):
            self._options["AWS_ALLOW_HTTP"] = "true"

    def open(self, spec: TargetSpec) -> None:
        """Check that an existing table has our columns."""
        if spec.layout.has_topic_folders:
            self.dropped = frozenset({"topic"})
            self._partition_by = ["topic", DATE_COLUMN]
        self._has_many = spec.layout.table_per_topic
        if not self._has_many:
            table = self._find("")
            columns = {*MESSAGES.names, DATE_COLUMN, *([BODY_COLUMN] if spec.body else [])}
            if table is not None and {field.name for field in table.schema().fields} != columns:
                raise TargetMismatch(f"the Delta table {self.work.uri} has different columns; export to another target")

    def find_end(self, broker_name: str) -> int | None:
        """The version of the application transaction. None with several tables: the manifests have it."""
        if self._has_many:
            return None
        table = self._find("")
        return None if table is None else table.transaction_version(_app_id(broker_name))

    def moves(self, commit: Commit) -> list[Move]:
        """The moves into the tables' folders."""
        return [(file.staged, self._folder(file.table), file.name) for file in commit.files] + [
            (file.staged, self._folder(QUARANTINE_TABLE), file.name) for file in commit.quarantine
        ]

    def has_begun(self, commit: Commit) -> bool:
        """Whether one of the commit's tables contains it."""
        tables = {file.table for file in commit.files} | ({QUARANTINE_TABLE} if commit.quarantine else set())
        return any(self._has(name, commit) for name in tables)

    def _has(self, name: str, commit: Commit) -> bool:
        table = self._find(name)
        done = None if table is None else table.transaction_version(_app_id(commit.broker_name))
        return done is not None and done >= commit.end

    def publish(self, commit: Commit, staging: Location) -> None:
        """Move the files into the tables' folders, then commit each table."""
        move_staged(commit, staging, self.moves(commit))
        if commit.quarantine:
            self._commit(QUARANTINE_TABLE, commit, commit.quarantine, QUARANTINE, [])
        by_table: dict[str, list[WrittenFile]] = defaultdict(list)
        if not self._has_many:
            by_table[""] = []  # its transaction advances even if no row was selected
        for file in commit.files:
            by_table[file.table].append(file)
        for name, files in by_table.items():
            self._commit(name, commit, files, self.bodies.schema_of(name).append(_DATE), self._partition_by)

    def _commit(
        self, name: str, commit: Commit, files: Sequence[WrittenFile], schema: pa.Schema, partition_by: list[str]
    ) -> None:
        app_id = _app_id(commit.broker_name)
        try:
            table = self._find(name)
            if table is None:
                self._folder(name).make()
                table = DeltaTable.create(
                    self._uri(name), schema, mode="ignore", partition_by=partition_by, storage_options=self._options
                )
            done = table.transaction_version(app_id)
            if done is not None and done >= commit.end:
                return
            properties = CommitProperties(
                app_transactions=[Transaction(app_id, commit.end)], custom_metadata={"headrace.run": commit.run}
            )
            table.create_write_transaction(
                [_add(file, partition_by) for file in files],
                "append",
                schema,
                partition_by,
                commit_properties=properties,
            )
            fault_point("delta.committed")
        except (DeltaError, OSError) as error:
            raise TargetError(f"{self._uri(name)}: {_first_line(error)}") from None

    def read(self, ledger: Ledger, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows, as Delta reads them."""
        for name, table in self._tables(ledger):
            with telling(self._uri(name)):
                dataset = table.to_pyarrow_dataset()
                there = [column for column in columns if column in dataset.schema.names]
                yield from dataset.scanner(columns=there).to_batches()

    def file_sizes(self, ledger: Ledger) -> list[int]:
        """The files according to Delta: its own compaction is not in our manifests."""
        return [
            size
            for _, table in self._tables(ledger)
            for size in pa.table(table.get_add_actions())["size_bytes"].to_pylist()
        ]

    def count_quarantined(self, ledger: Ledger) -> int:  # noqa: ARG002  the table knows
        """Rows of the quarantine table."""
        table = self._find(QUARANTINE_TABLE)
        return 0 if table is None else int(table.to_pyarrow_dataset().count_rows())

    def strays(self, ledger: Ledger) -> list[str]:  # noqa: ARG002  what Delta's log does not name is not read
        """Empty: readers use the table's metadata, not file names."""
        return []

    def compact(self, target: Committing, ledger: Ledger, before: date) -> Compaction:  # noqa: ARG002  Delta has its own log
        """Delta's own compaction, partition by partition."""
        partitions = files_before = files_after = 0
        for name, table in self._tables(ledger):
            try:
                done = table.optimize.compact(partition_filters=[(DATE_COLUMN, "<", before.isoformat())])
            except (DeltaError, OSError) as error:
                raise TargetError(f"{self._uri(name)}: {_first_line(error)}") from None
            partitions += done["partitionsOptimized"]
            files_before += done["numFilesRemoved"]
            files_after += done["numFilesAdded"]
        return Compaction(partitions, files_before, files_after)

    def _tables(self, ledger: Ledger) -> "Iterator[tuple[str, DeltaTable]]":
        """The existing tables of messages."""
        for name in sorted({file.table for file in ledger.live_files()[0]} | (set() if self._has_many else {""})):
            table = self._find(name)
            if table is not None:
                yield name, table

    def _find(self, name: str) -> "DeltaTable | None":
        try:
            return DeltaTable(self._uri(name), storage_options=self._options)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise TargetError(f"{self._uri(name)}: {_first_line(error)}") from None

    def _folder(self, name: str) -> Location:
        return self.work.at(name if name == QUARANTINE_TABLE else table_name(name)) if name else self.work

    def _uri(self, name: str) -> str:
        return self._folder(name).path_of("").rstrip("/")


def _app_id(broker_name: str) -> str:
    return f"headrace-export/{broker_name}"


def _add(file: WrittenFile, partition_by: list[str]) -> AddAction:
    values: dict[str, str | None] = {"topic": file.topic, DATE_COLUMN: file.date}
    one_topic = {"topic": file.topic} if group_of(file.name) else {}
    statistics = {
        "numRecords": file.rows,
        "minValues": {"commit_log_offset": file.first_offset, **one_topic},
        "maxValues": {"commit_log_offset": file.last_offset, **one_topic},
        "nullCount": {"commit_log_offset": 0},
    }
    return AddAction(
        file.name,
        file.size_bytes,
        {name: values[name] for name in partition_by},
        0,
        True,
        json.dumps(statistics),
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
