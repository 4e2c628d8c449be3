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
"""Raised when a column's name, type or meaning changes. A target says with which it was made."""

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
PROPERTIES: Final = pa.map_(pa.string(), pa.string())

MESSAGES: Final = pa.schema([
    pa.field("cluster", pa.string()),  # given by the operator: the log does not say it
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
    pa.field("born_timestamp", TIMESTAMP),  # null where the client's clock said no year from 1 to 9999
    pa.field("store_timestamp", TIMESTAMP),
    pa.field("born_host", pa.string()),  # address:port, IPv6 in brackets
    pa.field("store_host", pa.string()),
    pa.field("reconsume_times", pa.int32()),
    pa.field("flag", pa.int32()),
    pa.field("sys_flag", pa.int32()),  # as stored, also where the body was inflated
    pa.field("prepared_transaction_offset", pa.int64()),
    pa.field("body_crc", pa.int32()),  # of the body as stored
    pa.field("real_topic", pa.string()),  # REAL_TOPIC: where a delayed or half message is meant to go
    pa.field("retry_topic", pa.string()),  # RETRY_TOPIC: whence a message of %RETRY% or %DLQ% came
    pa.field("properties", PROPERTIES),  # all but UNIQ_KEY, KEYS and TAGS, unless asked
    pa.field("body", pa.binary()),
])  # fmt: skip
"""A message."""

QUARANTINE: Final = pa.schema([
    pa.field("cluster", pa.string()),
    pa.field("broker_name", pa.string()),
    pa.field("commit_log_offset", pa.int64()),
    pa.field("size", pa.int64()),  # bytes that are damaged
    pa.field("reason", pa.string()),
    pa.field("raw", pa.binary()),  # the first of them, as they lie in the log
])  # fmt: skip
"""Bytes of the log that are no good record."""

BODY_COLUMN: Final = "body_json"
"""The column behind those of `MESSAGES` in tables whose bodies are typed: a struct, see `body_schema`."""

MAY_BE_NULL: Final = frozenset({"msg_id", "keys", "tags", "born_timestamp", "real_topic", "retry_topic"})
"""Columns of `MESSAGES` that are null where a message has no such property, or was born at no time. No other column is, of no table."""

DATE_COLUMN: Final = "dt"
"""The partition column that says the UTC date of `store_timestamp`; in Hive and Delta layouts it is no column of the files."""


def chosen(columns: Sequence[str] | None) -> pa.Schema:
    """`MESSAGES` with only these columns, in this order; all for None. Raises ExportError for one that is not there."""
    if columns is None:
        return MESSAGES
    missing = [name for name in columns if name not in MESSAGES.names]
    if missing:
        raise ExportError(f"no such column: {', '.join(missing)}; the columns are {', '.join(MESSAGES.names)}")
    return pa.schema([MESSAGES.field(name) for name in columns])


def without_nulls(schema: pa.Schema) -> pa.Schema:
    """`schema`, some columns of `MESSAGES` or `QUARANTINE`, with the promise that those which are never null are not."""
    return pa.schema([field.with_nullable(field.name in MAY_BE_NULL) for field in schema])
