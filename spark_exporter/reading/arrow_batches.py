"""Creates Arrow batches from the buffers of `RecordColumns`. Bodies are not copied again; the other columns are small."""

import struct
import sys

import pyarrow as pa

from spark_exporter.reading.record_columns import RecordColumns
from spark_exporter.reading.schema import MAY_BE_NULL, MESSAGES, PROPERTIES


def as_batch(columns: RecordColumns, cluster: str, broker_name: str, schema: pa.Schema = MESSAGES) -> pa.RecordBatch:
    """The rows of the last `decode`, with the columns of `schema` (see `schema.chosen`)."""
    constants = {"cluster": cluster, "broker_name": broker_name}
    arrays = []
    for field in schema:
        if field.name in constants:
            arrays.append(pa.repeat(_text_scalar(constants[field.name]), columns.rows))
        elif field.name == "properties":
            arrays.append(_map(columns))
        elif pa.types.is_string(field.type) or pa.types.is_binary(field.type):
            arrays.append(_texts(columns, field))
        else:
            arrays.append(_numbers(columns, field))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _text_scalar(text: str) -> pa.Scalar:
    # Built from buffers: `pa.scalar` imports pandas if installed, for which a worker would wait before its first row.
    data = text.encode()
    ends = pa.py_buffer(struct.pack("=ii", 0, len(data)))
    return pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(data)])[0]


def _numbers(columns: RecordColumns, field: pa.Field) -> pa.Array:
    data = _copied(columns, field.name, columns.rows * field.type.bit_width // 8)
    return pa.Array.from_buffers(field.type, columns.rows, [columns.buffers.get(field.name + ".valid"), data])


def _texts(columns: RecordColumns, field: pa.Field) -> pa.Array:
    valid = columns.buffers[field.name + ".valid"] if field.name in MAY_BE_NULL else None
    return pa.Array.from_buffers(field.type, columns.rows, [valid, *_ends_and_text(columns, field.name, columns.rows)])


def _map(columns: RecordColumns) -> pa.Array:
    assert columns.properties is not None, "this decoder does not keep properties"
    pairs = columns.properties.pairs
    names, values = (
        pa.Array.from_buffers(pa.string(), pairs, [None, *_ends_and_text(columns, part, pairs)])
        for part in ("names", "values")
    )
    entries = pa.StructArray.from_arrays([names, values], fields=[PROPERTIES.key_field, PROPERTIES.item_field])
    ends = _copied(columns, "properties.ends", 4 * columns.rows + 4)
    return pa.Array.from_buffers(PROPERTIES, columns.rows, [None, ends], children=[entries])


def _ends_and_text(columns: RecordColumns, name: str, count: int) -> tuple[pa.Buffer, pa.Buffer]:
    ends = _copied(columns, name + ".ends", 4 * count + 4)
    length = int.from_bytes(ends[4 * count : 4 * count + 4], sys.byteorder)
    if name == "body":
        return ends, columns.buffers["body.text"].slice(0, length)
    return ends, _copied(columns, name + ".text", length)


def _copied(columns: RecordColumns, name: str, length: int) -> pa.Buffer:
    # Arrow's allocator keeps freed memory; the C library's returns such sizes to the system, and each batch would be paged in again.
    copy = pa.allocate_buffer(length)
    memoryview(copy)[:] = memoryview(columns.buffers[name])[:length]
    return copy
