"""Arrow batches over the buffers that `RecordColumns` has filled; nothing is copied."""

import pyarrow as pa

from spark_exporter.record_columns import RecordColumns
from spark_exporter.schema import MESSAGES, PROPERTIES

_CAN_BE_NULL = frozenset({"msg_id", "keys", "tags", "real_topic", "retry_topic"})


def as_batch(columns: RecordColumns, cluster: str, broker_name: str, schema: pa.Schema = MESSAGES) -> pa.RecordBatch:
    """The rows that the last `decode` left, with the columns of `schema` (see `schema.chosen`). The batch keeps the buffers alive."""
    constants = {"cluster": cluster, "broker_name": broker_name}
    arrays = []
    for field in schema:
        if field.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[field.name], field.type), columns.rows))
        elif field.name == "properties":
            arrays.append(_map(columns))
        elif pa.types.is_string(field.type) or pa.types.is_binary(field.type):
            arrays.append(_texts(columns, field))
        else:
            arrays.append(_numbers(columns, field))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _numbers(columns: RecordColumns, field: pa.Field) -> pa.Array:
    valid = columns.buffers.get(field.name + ".valid")
    return pa.Array.from_buffers(field.type, columns.rows, [valid, columns.buffers[field.name]])


def _texts(columns: RecordColumns, field: pa.Field) -> pa.Array:
    valid = columns.buffers[field.name + ".valid"] if field.name in _CAN_BE_NULL else None
    ends, text = columns.buffers[field.name + ".ends"], columns.buffers[field.name + ".text"]
    return pa.Array.from_buffers(field.type, columns.rows, [valid, ends, text])


def _map(columns: RecordColumns) -> pa.Array:
    names, values = (
        pa.Array.from_buffers(pa.string(), columns.pairs, [None, columns.buffers[part + ".ends"], columns.buffers[part + ".text"]])
        for part in ("names", "values")
    )
    entries = pa.StructArray.from_arrays([names, values], fields=[PROPERTIES.key_field, PROPERTIES.item_field])
    return pa.Array.from_buffers(PROPERTIES, columns.rows, [None, columns.buffers["properties.ends"]], children=[entries])
