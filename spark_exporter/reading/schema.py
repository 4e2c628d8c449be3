"""What a row is: the columns of exported messages and of quarantined bytes, as Arrow types.

The types are those that Spark, Iceberg and Delta all take as they are: no dictionaries, views, large types, or other time units. A Spark data
source may yield batches of `MESSAGES` (or of `chosen(...)` columns of it) unchanged; the Spark schema is
`pyspark.sql.pandas.types.from_arrow_schema(MESSAGES)`. All columns are nullable, as Spark writes them anyway; null are only those of `MAY_BE_NULL`. A new
column is filled in `record_columns`, or in `property_columns` if it is a property.

The key of a row is (broker_name, commit_log_offset). `msg_id` is not unique: a producer that tries again sends it twice.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from spark_exporter.errors import ExportError

SCHEMA_VERSION: Final = 1
"""Raised when a column's name, type or meaning changes. A target stores the version with which it was created."""

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
PROPERTIES: Final = pa.map_(pa.string(), pa.string())

MESSAGES: Final = pa.schema([
    pa.field("cluster", pa.string()),  # given by the operator: not stored in the log
    pa.field("broker_name", pa.string()),  # likewise
    pa.field("topic", pa.string()),
    pa.field("queue_id", pa.int32()),
    pa.field("queue_offset", pa.int64()),
    pa.field("commit_log_offset", pa.int64()),
    pa.field("store_size", pa.int32()),  # bytes of the whole record
    pa.field("msg_id", pa.string()),  # UNIQ_KEY, which SendResult calls msgId
    pa.field("offset_msg_id", pa.string()),  # store host, port and physical offset in hexadecimal
    pa.field("keys", pa.string()),
    pa.field("tags", pa.string()),
    pa.field("born_timestamp", TIMESTAMP),  # null if the stored time is outside the years 1 to 9999
    pa.field("store_timestamp", TIMESTAMP),
    pa.field("born_host", pa.string()),  # address:port, IPv6 in brackets
    pa.field("store_host", pa.string()),
    pa.field("reconsume_times", pa.int32()),
    pa.field("flag", pa.int32()),
    pa.field("sys_flag", pa.int32()),  # as stored, also where the body was inflated
    pa.field("prepared_transaction_offset", pa.int64()),
    pa.field("body_crc", pa.int32()),  # of the body as stored
    pa.field("real_topic", pa.string()),  # REAL_TOPIC: the destination of a delayed or half message
    pa.field("retry_topic", pa.string()),  # RETRY_TOPIC: the original topic of a message in %RETRY% or %DLQ%
    pa.field("properties", PROPERTIES),  # without UNIQ_KEY, KEYS and TAGS, except with --raw-properties
    pa.field("body", pa.binary()),
])  # fmt: skip
"""A message."""

QUARANTINE: Final = pa.schema([
    pa.field("cluster", pa.string()),
    pa.field("broker_name", pa.string()),
    pa.field("commit_log_offset", pa.int64()),
    pa.field("size", pa.int64()),  # bytes that are damaged
    pa.field("reason", pa.string()),
    pa.field("raw", pa.binary()),  # the first of them, as stored in the log
])  # fmt: skip
"""Bytes of the log that are not a valid record."""

BODY_COLUMN: Final = "body_json"
"""The column behind those of `MESSAGES` in tables whose bodies are typed: a struct, see `body_schema`."""

MAY_BE_NULL: Final = frozenset({"msg_id", "keys", "tags", "born_timestamp", "real_topic", "retry_topic"})
"""Columns of `MESSAGES` that are null if the message has no such property; `born_timestamp` is null if it is outside the years 1 to 9999. All other
columns, of both tables, are never null."""

DATE_COLUMN: Final = "dt"
"""The partition column with the UTC date of `store_timestamp`; in Hive and Delta layouts it is not a column of the files."""


def chosen(columns: Sequence[str] | None) -> pa.Schema:
    """`MESSAGES` with only these columns, in this order; all for None. Raises ExportError for one that is not there."""
    if columns is None:
        return MESSAGES
    missing = [name for name in columns if name not in MESSAGES.names]
    if missing:
        raise ExportError(f"no such column: {', '.join(missing)}; the columns are {', '.join(MESSAGES.names)}")
    return pa.schema([MESSAGES.field(name) for name in columns])


def without_nulls(schema: pa.Schema) -> pa.Schema:
    """`schema`, some columns of `MESSAGES` or `QUARANTINE`, with columns that are never null declared as such."""
    return pa.schema([field.with_nullable(field.name in MAY_BE_NULL) for field in schema])
