"""Helpers for tests of exports: run one, read it back as readers of the format do, and compare with golden stores.

Readers are imported where they are used: programs that only export, in many short processes, would spend half their
time on the imports.
"""

import base64
import hashlib
import ipaddress
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.model.host import parse_host
from spark_exporter.reading.record_choice import RecordChoice
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export, ExportRequest, Summary
from spark_exporter.targets.ledger import TargetSpec
from spark_exporter.writing.layout import Layout
from support import golden

FORMATS = ("parquet", "iceberg", "delta")
EVERYTHING = RecordChoice(include_system=True)
SMALL_RANGES = 40_000
"""So that golden stores, of a megabyte or less, are cut into several."""
LAST_MS = 253402300799999
"""The end of the year 9999: what a client says beyond is no time, and null in the table."""
PROMOTED = ("UNIQ_KEY", "KEYS", "TAGS")

Row = dict[str, Any]


def request(
    source: Path,
    target: Path | str,
    table_format: str = "parquet",
    *,
    layout: Layout | None = None,
    choice: RecordChoice = EVERYTHING,
    spec: TargetSpec | None = None,
    **more: Any,
) -> ExportRequest:
    """The default request of tests: all records, in small ranges, however full the disk is."""
    spec = spec or TargetSpec(table_format, layout or Layout(), choice)
    return ExportRequest(
        source, str(target), spec, **{"least_range_bytes": SMALL_RANGES, "cleaning_level": 1.0, **more}
    )


def export(source: Path, target: Path | str, table_format: str = "parquet", **more: Any) -> Summary:
    """Runs the local engine once."""
    with Export(request(source, target, table_format, **more), LocalEngine(2)) as run:
        return run.run_once()


def read(target: Path, table_format: str) -> pa.Table:
    """All rows of the single table, read as users of the format read them."""
    if table_format == "iceberg":
        return iceberg_table(target, "headrace.messages").scan().to_arrow()
    if table_format == "delta":
        from deltalake import DeltaTable  # noqa: PLC0415

        return DeltaTable(str(target)).to_pyarrow_table()
    import pyarrow.dataset as ds  # noqa: PLC0415

    return ds.dataset(str(target), partitioning="hive").to_table()


def read_quarantine(target: Path, table_format: str) -> list[Row]:
    """The quarantined records, in log order."""
    if table_format == "iceberg":
        table = iceberg_table(target, "headrace.messages_dlq").scan().to_arrow()
    elif table_format == "delta":
        from deltalake import DeltaTable  # noqa: PLC0415

        table = DeltaTable(str(target / "_quarantine")).to_pyarrow_table()
    else:
        import pyarrow.dataset as ds  # noqa: PLC0415

        table = ds.dataset(str(target / "_quarantine")).to_table()
    rows: list[Row] = table.sort_by("commit_log_offset").to_pylist()
    return rows


def query(target: Path, table_format: str, columns: str) -> list[tuple[Any, ...]]:
    """What DuckDB reads: the columns of all rows in log order.

    Its readers of table formats need a download, so for these it gets Arrow data.
    """
    import duckdb  # noqa: PLC0415

    connection = duckdb.connect()
    if table_format == "parquet":
        rows = f"read_parquet('{target}/dt=*/*.parquet')"
    else:
        connection.register("messages", read(target, table_format))
        rows = "messages"
    return connection.sql(f"select {columns} from {rows} order by commit_log_offset").fetchall()  # noqa: S608


def iceberg_table(target: Path, name: str) -> Any:
    """A table of a folder of Iceberg tables, loaded as by its readers. Its catalog is closed with it."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415

    catalog = load_catalog("headrace", uri=f"sqlite:///{target}/catalog.db")
    table = catalog.load_table(name)
    weakref.finalize(table, catalog.close)
    return table


def rows_of(table: pa.Table) -> list[Row]:
    """Rows in log order, comparable with `expected_row`."""
    return [_comparable(row) for row in table.sort_by("commit_log_offset").to_pylist()]


def _comparable(row: Row) -> Row:
    plain = dict(row)
    plain.pop("dt", None)
    body = plain.pop("body")
    return {
        **plain,
        "born_timestamp": _ms(plain["born_timestamp"]),
        "store_timestamp": _ms(plain["store_timestamp"]),
        "born_host": _as_java(plain["born_host"]),
        "store_host": _as_java(plain["store_host"]),
        "properties": dict(plain["properties"]),
        "body": (len(body), hashlib.sha256(body).hexdigest()),
    }


def expected_row(line: Row, broker_name: str = "broker", cluster: str = "") -> Row:
    """The row of a golden record line."""
    properties = line["properties"]
    return {
        "cluster": cluster,
        "broker_name": broker_name,
        "topic": line["topic"],
        "queue_id": line["queueId"],
        "queue_offset": line["queueOffset"],
        "commit_log_offset": line["offset"],
        "store_size": line["size"],
        "msg_id": properties.get("UNIQ_KEY"),
        "offset_msg_id": line["offsetMsgId"],
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "born_timestamp": line["bornTimestamp"] if line["bornTimestamp"] <= LAST_MS else None,
        "store_timestamp": line["storeTimestamp"],
        "born_host": line["bornHost"],
        "store_host": line["storeHost"],
        "reconsume_times": line["reconsumeTimes"],
        "flag": line["flag"],
        "sys_flag": line["sysFlag"],
        "prepared_transaction_offset": line["preparedTransactionOffset"],
        "body_crc": line["bodyCRC"],
        "real_topic": properties.get("REAL_TOPIC"),
        "retry_topic": properties.get("RETRY_TOPIC"),
        "properties": {name: value for name, value in properties.items() if name not in PROMOTED},
        "body": _body(line),
    }


def expected_rows(name: str, without: Sequence[int] = ()) -> list[Row]:
    """The rows of a whole golden store, without the records at these offsets."""
    return [
        expected_row(line)
        for line in golden.expected(name)
        if line["kind"] == "record" and line["offset"] not in without
    ]


def _body(line: Row) -> tuple[int, str]:
    part = "plainBody" if "plainBodyLength" in line else "body"
    digest = line.get(f"{part}Sha256") or hashlib.sha256(base64.b64decode(line[part])).hexdigest()
    return line[f"{part}Length"], digest


def _ms(value: Any) -> int | None:
    return None if value is None else round(value.timestamp() * 1000)


def _as_java(host: str) -> str:
    """A host as formatted by Java and in the golden lines."""
    address, port = parse_host(host)
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        groups = ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
        return f"{parsed.ipv4_mapped or groups}:{port}"
    return f"{parsed}:{port}"
