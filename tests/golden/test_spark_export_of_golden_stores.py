"""Spark exports every golden store and damaged variant into every format: the same rows and files as the local engine.

The engine writes the data files whatever the format. Iceberg and Delta therefore get only one damaged variant, and all
of them with HEADRACE_CRASH_ROUNDS=full.

All stores go into one target, each as its own broker. `test_export_of_golden_stores.py` compares the local engine's
rows with those that RocketMQ's own classes read; intact stores are also compared here.
"""

import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_exporter.reading.schema import MESSAGES
from spark_exporter.running.engines.engine import Engine
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export
from support import golden
from support.exported import FORMATS, expected_row, read, request, rows_of
from support.spark import spark_engine, spark_session

NAMES = golden.stores() + golden.variants()
FEWER = NAMES if os.environ.get("HEADRACE_CRASH_ROUNDS") == "full" else [*golden.stores(), "unclean-bad-middle"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each store and variant, by name."""
    return {name: golden.unpack(name, tmp_path_factory.mktemp(name)) for name in NAMES}


def export_all(unpacked: dict[str, Path], target: Path, table_format: str, engine: Engine) -> None:
    for name, root in unpacked.items():
        with Export(request(root, target, table_format, broker_name=name), engine) as run:
            run.run_once()


@pytest.fixture(scope="module")
def by_local_engine(unpacked: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("local")
    export_all(unpacked, target, "parquet", LocalEngine(2))
    return target


@pytest.fixture(scope="module")
def wanted(by_local_engine: Path) -> pa.Table:
    return ordered(read(by_local_engine, "parquet"))


def ordered(table: pa.Table) -> pa.Table:
    """Our columns and types, sorted by broker and log offset."""
    ours = table.select(MESSAGES.names).cast(MESSAGES)
    return ours.sort_by([("broker_name", "ascending"), ("commit_log_offset", "ascending")]).combine_chunks()


def of_broker(table: pa.Table, name: str) -> pa.Table:
    return table.filter(pc.field("broker_name") == name).combine_chunks()


def files_of(target: Path) -> dict[str, bytes]:
    """The files that readers see, by name."""
    return {
        str(path.relative_to(target)): path.read_bytes()
        for folder in ("dt=*", "_quarantine")
        for path in target.glob(f"{folder}/**/*.parquet")
    }


@pytest.mark.parametrize("table_format", FORMATS)
def test_spark_and_local_engine_export_the_same_rows(
    table_format: str,
    unpacked: dict[str, Path],
    by_local_engine: Path,
    wanted: pa.Table,
    tmp_path: Path,
) -> None:
    names = NAMES if table_format == "parquet" else FEWER
    export_all({name: unpacked[name] for name in names}, tmp_path, table_format, spark_engine())
    wanted = wanted.filter(pc.field("broker_name").isin(names)).combine_chunks()
    found = read(tmp_path, table_format)
    assert sorted(found["broker_name"].unique().to_pylist()) == sorted(names)
    assert ordered(found).equals(wanted)
    in_duckdb = (
        duckdb.read_parquet(f"{tmp_path}/dt=*/*.parquet") if table_format == "parquet" else duckdb.from_arrow(found)
    )
    columns = ["broker_name", "commit_log_offset", "topic", "queue_id", "queue_offset", "msg_id", "tags"]
    said = in_duckdb.order("broker_name, commit_log_offset").project(", ".join(columns))
    assert said.fetchall() == list(zip(*(wanted[name].to_pylist() for name in columns), strict=True))
    if table_format == "parquet":
        assert files_of(tmp_path) == files_of(by_local_engine), "the same range gave different bytes"
        assert ordered(spark_session().read.parquet(str(tmp_path)).toArrow()).equals(wanted)


@pytest.mark.parametrize("name", golden.stores())
def test_spark_exports_intact_stores_as_rocketmq_reads_them(name: str, wanted: pa.Table) -> None:
    lines = (line for line in golden.expected(name) if line["kind"] == "record")
    assert rows_of(of_broker(wanted, name)) == [expected_row(line, name) for line in lines]


@pytest.mark.parametrize("name", ["kinds", "v5", "unclean-bad-middle"])
def test_spark_data_source_reads_the_same_rows(name: str, unpacked: dict[str, Path], wanted: pa.Table) -> None:
    source = spark_session().read.format("commitlog").option("includeSystem", "true").option("broker", name)
    assert ordered(source.load(str(unpacked[name])).toArrow()).equals(of_broker(wanted, name))
