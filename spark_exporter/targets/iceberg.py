"""Iceberg tables, with pyiceberg (no Java).

The progress of each broker's log is written in the same commit as the files, in two places: the snapshot's summary, and the table's properties,
which remain when snapshots expire.

    TARGET                                     a folder: the catalog is catalog.db in it, the table `headrace.messages`
    CATALOG_URI[?warehouse=URI]#NAMESPACE.TABLE      any catalog that pyiceberg supports by URI (sqlite:///…, http://…, thrift://…)
"""

import contextlib
import logging
import weakref
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any, Final

import pyarrow as pa

from spark_exporter.errors import MissingPackage, TargetError, TargetMismatch
from spark_exporter.reading.schema import QUARANTINE
from spark_exporter.storage.location import Location
from spark_exporter.targets.ledger import Commit, Ledger, TargetSpec
from spark_exporter.targets.sink import Committing, Compaction, Move, move_staged
from spark_exporter.writing.body_schema import BodySchema, TableBodies
from spark_exporter.writing.layout import MAIN_TABLE, group_of, table_name
from spark_exporter.writing.merge_files import SMALL_BYTES, merge_files
from spark_exporter.writing.range_result import WrittenFile

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NamespaceAlreadyExistsError,
        NoSuchTableError,
        TableAlreadyExistsError,
    )
    from pyiceberg.io.pyarrow import parquet_files_to_data_files
    from pyiceberg.table import Table
    from pyiceberg.transforms import DayTransform, IdentityTransform
except ImportError:
    raise MissingPackage(
        "Iceberg tables require the package pyiceberg; run in Headrace's virtual environment: pip install 'headrace-appliance[iceberg]'. "
        "The Debian and RPM packages export to Parquet only"
    ) from None

EXPORTED: Final = "headrace.exported."
"""Prefix of keys in the table's properties and snapshot summaries. With a broker's name appended: the physical offset up to which its log is in the table."""

# It warns about each column without statistics, once per file.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)

_TRIES: Final = 5
"""# limit: attempts of one commit while other writers change the table."""

_FOLDER_TABLE: Final = "headrace.messages"


class IcebergSink:
    """A table of an Iceberg catalog, with its quarantine table beside it."""

    format = "iceberg"

    def __init__(self, target: str) -> None:
        self.dropped: frozenset[str] = frozenset()
        self.writer: dict[str, Any] = {}
        self.bodies = TableBodies()
        self._target = target
        uri, separator, name = target.partition("#")
        self._folder = None if separator else Location(uri)
        self._name = name if separator else _FOLDER_TABLE
        if self._name.count(".") < 1:
            raise TargetError(f"{target}: expected CATALOG_URI#NAMESPACE.TABLE")
        if self._folder is not None:
            if not self._folder.is_local:
                raise TargetError(
                    f"{target}: an Iceberg target without a catalog must be a local folder; for remote storage use a catalog: CATALOG_URI?warehouse=URI#NAMESPACE.TABLE"
                )
            self._folder.make()
            path = self._folder.path_of("catalog.db")
            properties = {"uri": f"sqlite:///{path}", "warehouse": f"file://{self._folder.path_of('warehouse')}"}
        else:
            uri, _, warehouse = uri.partition("?warehouse=")
            properties = {"uri": uri, **({"warehouse": warehouse} if warehouse else {})}
        self._catalog = self._load(properties)
        # Connections to a database that are left to the garbage collector cause warnings (Python 3.13).
        weakref.finalize(self, self._catalog.close)
        self._has_many = False
        self._group_by_topic = False
        self.work = self._folder or Location(".")

    def _load(self, properties: dict[str, str]) -> Catalog:
        with self._told():
            return load_catalog("headrace", **properties)

    def open(self, spec: TargetSpec) -> None:
        """Create the main table if it does not exist, and check its columns."""
        self._group_by_topic = spec.layout.has_topic_folders
        self._has_many = spec.layout.table_per_topic
        # With a table per topic, it only gives the tables' location.
        is_typed = bool(spec.body) and not self._has_many
        schema = TableBodies(BodySchema(spec.body) if spec.body and is_typed else None).schema_of(MAIN_TABLE)
        table = self._make(self._name, schema)
        if self._folder is None:
            self.work = Location(_as_path(table.location()))
        if [field.name for field in table.schema().fields] != schema.names:
            raise TargetMismatch(f"{self._target}: the table has different columns; export to another target")

    def find_work(self) -> Location | None:
        """The folder of `_export` if the main table exists. Creates nothing."""
        try:
            return Location(_as_path(self._load_table(self._name).location()))
        except NoSuchTableError:
            return None

    def find_end(self, broker_name: str) -> int | None:
        """The value in the table's properties. None with several tables: the manifests have it."""
        if self._has_many:
            return None
        return _exported(self._load_table(self._name), broker_name)

    def moves(self, commit: Commit) -> list[Move]:
        """The moves into the tables' folders."""
        tables = {name: self._make(self._table_name(name), self.bodies.schema_of(name)) for name in _by_table(commit)}
        moves = [move for name, files in _by_table(commit).items() for move in _moves(tables[name], files)]
        if commit.quarantine:
            moves += _moves(self._make(self._name + "_dlq", QUARANTINE), commit.quarantine)
        return moves

    def has_begun(self, commit: Commit) -> bool:
        """Whether one of the commit's tables contains it."""
        tables = [self._make(self._table_name(name), self.bodies.schema_of(name)) for name in _by_table(commit)]
        if commit.quarantine:
            tables.append(self._make(self._name + "_dlq", QUARANTINE))
        return any((_exported(each, commit.broker_name) or -1) >= commit.end for each in tables)

    def publish(self, commit: Commit, staging: Location) -> None:
        """Move the files into the tables' folders, then commit each table."""
        if commit.quarantine:
            self._commit(self._name + "_dlq", QUARANTINE, commit, commit.quarantine, staging)
        # The offset of a single table advances even if no row was selected.
        for table, files in {**({} if self._has_many else {MAIN_TABLE: []}), **_by_table(commit)}.items():
            self._commit(self._table_name(table), self.bodies.schema_of(table), commit, files, staging)

    def _commit(
        self, name: str, schema: pa.Schema, commit: Commit, files: Sequence[WrittenFile], staging: Location
    ) -> None:
        move_staged(commit, staging, _moves(self._make(name, schema), files))
        for _ in range(_TRIES):
            table = self._make(name, schema)
            done = _exported(table, commit.broker_name)
            if (done is not None and done >= commit.end) or self._try_commit(table, commit, files):
                return
        raise TargetError(
            f"{self._target}: commit {commit.number} failed repeatedly because other writers changed the table; run the export again"
        )

    def _try_commit(self, table: Table, commit: Commit, files: Sequence[WrittenFile]) -> bool:
        """Returns False if another writer was faster, possibly a run that published the same commit."""
        properties = {f"{EXPORTED}{commit.broker_name}": str(commit.end)}
        try:
            with self._told(), table.transaction() as transaction:
                if files:
                    transaction.add_files(
                        [f"{table.location()}/data/{file.name}" for file in files],
                        snapshot_properties={**properties, "headrace.run": commit.run},
                    )
                transaction.set_properties(properties)
        except TargetError as error:
            if isinstance(error.__cause__, CommitFailedException):
                return False
            raise
        return True

    def read(self, ledger: Ledger, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows, as Iceberg reads them."""
        for name in self._names(ledger).values():
            with self._told():
                table = self._load_table(name)
                there = [column for column in columns if column in table.schema().column_names]
                scan = table.scan(selected_fields=tuple(there))
                yield from (batch.select(there) for batch in scan.to_arrow_batch_reader())

    def file_sizes(self, ledger: Ledger) -> list[int]:
        """The files according to the catalog: compaction is not in our manifests."""
        sizes: list[int] = []
        for name in self._names(ledger).values():
            with self._told():
                sizes += [task.file.file_size_in_bytes for task in self._load_table(name).scan().plan_files()]
        return sizes

    def count_quarantined(self, ledger: Ledger) -> int:  # noqa: ARG002  the table knows
        """Rows of the quarantine table."""
        try:
            return int(self._load_table(self._name + "_dlq").scan().count())
        except NoSuchTableError:
            return 0

    def strays(self, ledger: Ledger) -> list[str]:  # noqa: ARG002  what the catalog does not name is not read
        """Empty: readers use the table's metadata, not file names."""
        return []

    def compact(self, target: Committing, ledger: Ledger, before: date) -> Compaction:
        """One snapshot per partition, which replaces the small files by the merged one."""
        partitions = files_before = files_after = 0
        for topic, name in self._names(ledger).items():
            table = self._load_table(name)
            folder = Location(_as_path(table.location()))
            for small in _small_partitions(table, before):
                described = [
                    (_described(task.file), task.file.file_path.removeprefix(f"{table.location()}/")) for task in small
                ]
                merged = merge_files(folder, described, target.staging, self.bodies.schema_of(topic))
                where = described[0][1].rpartition("/")[0]
                group = group_of(described[0][1])
                names = [f"{where}/{f'{group}@' if group else ''}{target.run}-{each.name}" for each in merged]
                for each, final in zip(merged, names, strict=True):
                    target.staging.move_to(each.staged, folder, final)
                with self._told(), table.transaction() as transaction:
                    paths = [f"{table.location()}/{each}" for each in names]
                    added = parquet_files_to_data_files(table.io, transaction.table_metadata, iter(paths))
                    with transaction.update_snapshot(
                        snapshot_properties={"headrace.run": target.run}
                    ).overwrite() as snapshot:
                        for task in small:
                            snapshot.delete_data_file(task.file)
                        for data_file in added:
                            snapshot.append_data_file(data_file)
                partitions, files_before, files_after = (
                    partitions + 1,
                    files_before + len(small),
                    files_after + len(merged),
                )
                table = self._load_table(name)
        return Compaction(partitions, files_before, files_after)

    def _make(self, name: str, schema: pa.Schema) -> Table:
        with self._told():
            try:
                return _without_retries(self._catalog.load_table(name))
            except NoSuchTableError:
                pass
            with contextlib.suppress(NamespaceAlreadyExistsError):
                self._catalog.create_namespace(name.rpartition(".")[0])
            try:
                with self._catalog.create_table_transaction(name, schema) as transaction:
                    if schema is not QUARANTINE:
                        with transaction.update_spec() as spec:
                            if self._group_by_topic:
                                spec.add_field("topic", IdentityTransform(), "topic")
                            spec.add_field("store_timestamp", DayTransform(), "store_day")
            except TableAlreadyExistsError:
                pass
            return _without_retries(self._catalog.load_table(name))

    def _load_table(self, name: str) -> Table:
        try:
            with self._told():
                return _without_retries(self._catalog.load_table(name))
        except NoSuchTableError:
            raise
        except OSError as error:
            raise TargetError(f"{self._target}: {error}") from None

    def _table_name(self, table: str) -> str:
        return f"{self._name}_{table_name(table)}" if table else self._name

    def _names(self, ledger: Ledger) -> dict[str, str]:
        """The catalog's names of the tables, by `Partition.table`."""
        tables = {file.table for file in ledger.live_files()[0]} if self._has_many else {MAIN_TABLE}
        return {table: self._table_name(table) for table in sorted(tables)}

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turns the errors of catalogs' libraries into a TargetError of one line."""
        try:
            yield
        except (NoSuchTableError, TargetError, NamespaceAlreadyExistsError, TableAlreadyExistsError):
            raise
        except Exception as error:
            line = str(error).strip().splitlines()
            if line and "No default path is set" in line[0]:
                line[0] = "the catalog has no default warehouse; specify one: CATALOG_URI?warehouse=URI#NAMESPACE.TABLE"
            raise TargetError(f"{self._target}: {line[0] if line else type(error).__name__}") from error


def _without_retries(table: Table) -> Table:
    """A table whose commits fail if it has changed since it was loaded. By default pyiceberg would add the files to the changed table, which may already contain them."""
    table.metadata.properties["commit.retry.num-retries"] = "0"
    return table


def _exported(table: Table, broker_name: str) -> int | None:
    found = table.properties.get(f"{EXPORTED}{broker_name}")
    return None if found is None else int(found)


def _by_table(commit: Commit) -> dict[str, list[WrittenFile]]:
    by_table: dict[str, list[WrittenFile]] = defaultdict(list)
    for file in commit.files:
        by_table[file.table].append(file)
    return by_table


def _moves(table: Table, files: Sequence[WrittenFile]) -> list[Move]:
    folder = Location(_as_path(table.location()))
    return [(file.staged, folder, f"data/{file.name}") for file in files]


def _as_path(location: str) -> str:
    return location.removeprefix("file://")


def _small_partitions(table: Table, before: date) -> list[list[Any]]:
    """The scan tasks of small files by partition, for partitions of past days with more than one small file."""
    day = next(at for at, field in enumerate(table.spec().fields) if field.name == "store_day")
    epoch = date(1970, 1, 1)
    partitions: dict[Any, list[Any]] = defaultdict(list)
    for task in table.scan().plan_files():
        value = task.file.partition[day]
        day_of = value if isinstance(value, date) else epoch + timedelta(days=value)
        if day_of < before and task.file.file_size_in_bytes < SMALL_BYTES:
            values = (task.file.partition[at] for at in range(len(table.spec().fields)))
            partitions[(*values, group_of(task.file.file_path))].append(task)
    return [tasks for tasks in partitions.values() if len(tasks) > 1]


def _described(file: Any) -> WrittenFile:
    """A data file of the catalog as `merge_files` expects it: its name contains the offset of its first record."""
    name = file.file_path.rpartition("/")[2]
    numbers = [int(part) for part in name.removesuffix(".parquet").split("-") if part.isdecimal()]
    first, last = numbers[-2:]
    return WrittenFile("", None, "1970-01-01", name, "", file.record_count, file.file_size_in_bytes, first, last, 0, 0)
