"""Bodies that are JSON objects as columns: what fits, what says more, what stays as it is, and that nothing is lost."""

import json
import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_exporter.errors import SchemaError, TargetMismatch
from spark_exporter.planning.plan import open_source
from spark_exporter.reading.range_scan import ScanOptions
from spark_exporter.reading.schema import MESSAGES
from spark_exporter.running.compact import compact
from spark_exporter.running.engines import local
from spark_exporter.running.engines.engine import Engine
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export
from spark_exporter.running.status import read_status
from spark_exporter.running.verify import verify
from spark_exporter.targets.ledger import TargetSpec
from spark_exporter.targets.open_target import open_target
from spark_exporter.writing.body_inference import MOST_NAMES, infer_schema
from spark_exporter.writing.body_schema import BodySchema
from spark_exporter.writing.layout import Layout, table_name
from spark_exporter.writing.range_result import RangeResult
from support.exported import EVERYTHING, FORMATS, export, read, request
from support.small_log import STORE_MS, SmallLog
from support.spark import spark_engine

DAY_MS = 24 * 3600 * 1000

ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "An order",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number", "minimum": 0},
        "state": {"enum": ["new", "paid", None]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "is gift": {"type": ["boolean", "null"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "$defs": {
        "line": {"type": "object", "additionalProperties": False, "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
    },
}  # fmt: skip


def typed(schema: BodySchema, *bodies: bytes) -> tuple[list[Any], list[bytes | None], int]:
    """`body_json`, `body` and how many do not fit."""
    batch = pa.RecordBatch.from_pydict({"body": list(bodies)}, schema=pa.schema([MESSAGES.field("body")]))
    batch, unfit = schema.type_bodies(batch)
    batch.validate(full=True)
    return batch["body_json"].to_pylist(), batch["body"].to_pylist(), unfit


def test_matching_body_is_typed_and_can_be_dropped() -> None:
    body = {
        "id": 7, "price": 3, "state": "paid", "at": "2026-11-21T10:00:00.25+02:00", "day": "2026-11-21", "is gift": True,
        "lines": [{"sku": "a", "count": 2}, {"sku": "b"}], "labels": {"x.y": "1", "": "2"},
    }  # fmt: skip
    rows, bodies, unfit = typed(BodySchema(ORDER), json.dumps(body).encode())
    assert rows == [
        {
            "id": 7,
            "price": 3.0,
            "state": "paid",
            "at": datetime(2026, 11, 21, 8, 0, 0, 250_000, UTC),
            "day": date(2026, 11, 21),
            "is~20gift": True,
            "lines": [{"sku": "a", "count": 2}, {"sku": "b", "count": None}],
            "labels": [("x.y", "1"), ("", "2")],
        }
    ]
    assert (bodies, unfit) == ([None], 0)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"7", b'"text"', b"{", b'{"id": 1} x', b'{"id": "\xff"}', b'{"id": 1, "state": "\\ud800"}', b"{}",
        b'{"id": null}', b'{"id": "1"}', b'{"id": true}', b'{"id": 1.5}', b'{"id": 9223372036854775808}', b'{"id": 1, "price": -1}',
        b'{"id": 1, "price": 9007199254740993}', b'{"id": 1, "state": "lost"}', b'{"id": 1, "at": "yesterday"}',
        b'{"id": 1, "at": "2026-11-21T10:00:00"}', b'{"id": 1, "at": "2026-11-21T10:00:00.1234567Z"}', b'{"id": 1, "at": "0001-01-01T00:00:00+10:00"}',
        b'{"id": 1, "day": "20261121"}', b'{"id": 1, "is gift": 0}', b'{"id": 1, "lines": {}}', b'{"id": 1, "lines": [{"sku": "a", "x": 1}]}',
        b'{"id": 1, "labels": {"a": 1}}', b'{"id": 1e999}', b"[" * 100_000, b'{"id": ' + b"9" * 10_000 + b"}",
    ],
)  # fmt: skip
def test_mismatched_body_is_kept_and_counted(body: bytes) -> None:
    rows, bodies, unfit = typed(BodySchema(ORDER), b'{"id": 1}', body, b'{"id": 2}')
    assert ([row and row["id"] for row in rows], bodies, unfit) == ([1, None, 2], [None, body, None], 1)


def test_body_with_unknown_fields_is_typed_and_kept() -> None:
    body = b'{"id": 1, "colour": "red"}'
    rows, bodies, unfit = typed(BodySchema(ORDER), body, b'{"id": 2, "colour": null}')
    assert ([row["id"] for row in rows], bodies, unfit) == ([1, 2], [body, None], 0)


_NAMES = st.text("abA. ü", max_size=3)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(_NAMES, _VALUES, max_size=4), min_size=1, max_size=6))
def test_inferred_schema_loses_no_body_content(bodies: list[dict[str, Any]]) -> None:
    said = [json.dumps(each).encode() for each in bodies]
    document = infer_schema(said)
    if document is None:
        return
    schema = BodySchema(document)
    rows, kept, _ = typed(schema, *said)
    for body, row, whole in zip(bodies, rows, kept, strict=True):
        if whole is None:
            assert row is not None
            assert _plain(row) == _plain(body), document
    again = infer_schema(said)
    assert again == document
    assert pickle.loads(pickle.dumps(schema)) == schema
    # What is kept with the target is JSON.
    assert BodySchema(json.loads(json.dumps(document))).column_type == schema.column_type


def _plain(value: Any) -> Any:
    """Values without what is not told apart: null from absent, 1.0 from 1, an empty map from none; names as columns have them."""
    if isinstance(value, list) and value and all(isinstance(each, tuple) for each in value):
        value = dict(value)
    if isinstance(value, dict):
        parts = {name if "~" in name else table_name(name) or "~": _plain(each) for name, each in value.items()}
        return {name: each for name, each in parts.items() if each is not None} or None
    if isinstance(value, list):
        return [_plain(each) for each in value] or None
    return float(value) if type(value) is int and abs(value) <= 1 << 53 else value


def test_schema_is_inferred_from_the_majority_of_bodies() -> None:
    bodies = [{"a": 1, "b": 1.5, "c": [], "d": {"x": True}}] * 3 + [{"a": "odd", "b": 2, "e": None}]
    document = infer_schema([json.dumps(each).encode() for each in bodies] + [b"no JSON"])
    assert document == {
        "type": "object",
        "properties": {
            "a": {"type": ["integer", "null"]},
            "b": {"type": ["number", "null"]},
            "c": {"type": ["array", "null"], "items": {"type": ["string", "null"]}},
            "d": {"type": ["object", "null"], "properties": {"x": {"type": ["boolean", "null"]}}},
        },
    }
    assert infer_schema([b"text"] * 2 + [b"{}"]) is None
    assert infer_schema([b"{}"]) is None
    many = json.dumps({"prices": {f"item-{number}": number for number in range(MOST_NAMES + 1)}}).encode()
    document = infer_schema([many])
    assert document is not None
    assert document["properties"]["prices"] == {
        "type": ["object", "null"],
        "additionalProperties": {"type": ["integer", "null"]},
    }


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "has no type"),
        ({"type": "array", "items": {"type": "string"}}, "must have type object"),
        ({"type": "object"}, "needs either properties or a schema"),
        ({"type": "object", "properties": {"a": {}}}, "#/properties/a has no type"),
        ({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}, "more than one type"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}, "the keyword pattern is not supported"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "unknown type text"),
        ({"type": 5}, "#/type: unexpected value 5"),
        ({"type": [5]}, "unknown type 5"),
        ({"type": "object", "properties": []}, "#/properties: unexpected value []"),
        ({"type": "object", "properties": {"a": 5}}, "#/properties/a has no type"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": "a"}, "#/required: unexpected value \"a\""),
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": "0"}}}, 'minimum: unexpected value "0"'),
        ({"type": "object", "properties": {"a": {"enum": "x"}}}, "has no type"),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}, "one type besides null"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "only references within"),
        ({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}, "nested deeper"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}, "#/$defs/x does not exist"),
        ({"type": "object", "properties": {"a": {"type": "string"}, "A": {"type": "string"}}}, "the same column"),
    ],
)  # fmt: skip
def test_schema_without_a_matching_column_type_is_refused_in_one_line(document: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError) as error:
        BodySchema(document)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_schema_file_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(ORDER))
    assert BodySchema.from_file(str(path)) == BodySchema(ORDER)
    for text, said in (("{", "is not JSON"), ("[]", "is not a JSON Schema"), ("{}", f"{path}: # has no type")):
        path.write_text(text)
        with pytest.raises(SchemaError, match=said):
            BodySchema.from_file(str(path))
    with pytest.raises(SchemaError, match="No such file"):
        BodySchema.from_file(str(tmp_path / "missing"))


def orders(log: SmallLog, first: int, count: int, **fields: Any) -> None:
    for number in range(first, first + count):
        body: Any = {"id": number, "price": number / 4, "lines": [{"sku": f"s-{number}", "count": number}]}
        if number % 5 == 4:
            body = {**body, "colour": "red"}
        log.append(b"no JSON" if number % 10 == 0 else json.dumps(body).encode(), **fields)


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
def test_fields_of_a_given_schema_are_columns_of_the_table(table_format: str, tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    target = tmp_path / "target"
    spec: dict[str, Any] = {"spec": TargetSpec(table_format, Layout(), EVERYTHING, body=ORDER)}
    for day in range(3):
        for part in range(2):
            orders(log, 40 * day + 20 * part, 20, store_timestamp=STORE_MS + day * DAY_MS)
            log.write()
            summary = export(log.root, target, table_format, **spec)
            assert (summary.rows, summary.unfit) == (20, 2)
    for _ in range(2):
        table = read(target, table_format).sort_by("commit_log_offset")
        assert table.num_rows == 120
        connection = duckdb.connect()
        connection.register("messages", table)
        (found,) = connection.sql(
            "select count(*), sum(body_json.price), max(body_json.lines[1].count), count(body), count(body_json) from messages"
        ).fetchall()
        prices = sum(number / 4 for number in range(120) if number % 10)
        assert found == (120, prices, 119, 36, 108)
        assert table["body"].to_pylist()[0] == b"no JSON"
        assert verify(open_source(log.root), open_target(str(target)), "broker").differences == ()
        assert read_status(open_target(str(target))).unfit == 12
        assert compact(open_target(str(target))).partitions in {0, 2}
    with pytest.raises(TargetMismatch, match=r"was created with body|has different columns"):
        export(log.root, target, table_format)


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
def test_schema_is_inferred_at_the_first_message_of_a_topic_and_kept(table_format: str, tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    target = tmp_path / "target"
    spec: dict[str, Any] = {"spec": TargetSpec(table_format, Layout(table_per_topic=True), EVERYTHING, body={})}
    for number in range(30):
        log.append(json.dumps({"id": number}).encode(), topic="Orders")
        log.append(json.dumps({"who": f"u-{number}", "age": number}).encode(), topic="Users")
        log.append(b"\0\1\2", topic="Blobs")
    log.write()
    summary = export(log.root, target, table_format, **spec)
    assert (summary.rows, summary.unfit) == (90, 0)
    assert summary.notes == ["Blobs: bodies are not JSON objects and are exported unparsed"]
    inferred = open_target(str(target)).ledger.read_inferred()
    log.append(b'{"id": "now a text"}', topic="Orders")
    log.append(b'{"id": 30, "colour": "red"}', topic="Orders")
    log.append(b'{"from": "far"}', topic="Late")
    log.write()
    summary = export(log.root, target, table_format, **spec)
    assert (summary.rows, summary.unfit, summary.notes) == (3, 1, [])
    opened = open_target(str(target))
    now = opened.ledger.read_inferred()
    assert {topic: now[topic] for topic in inferred} == inferred
    assert sorted(now) == ["Blobs", "Late", "Orders", "Users"]
    verified = verify(open_source(log.root), opened, "broker")
    assert (verified.rows, verified.differences) == (93, ())
    if table_format == "parquet":
        rows = [
            row for path in (target / "Orders").rglob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()
        ]
        rows.sort(key=lambda row: row["commit_log_offset"])
        assert [row["body_json"]["id"] for row in rows if row["body_json"]] == list(range(31))
        assert [row["body"] for row in rows if row["body"]] == [b'{"id": "now a text"}', b'{"id": 30, "colour": "red"}']
        (users,) = (target / "Users").rglob("*.parquet")
        assert pq.ParquetFile(users).schema_arrow.field("body_json").type == pa.struct(
            [pa.field("age", pa.int64()), pa.field("who", pa.string())]
        )


def test_order_of_schema_properties_does_not_matter(tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    types: list[Any] = []
    for turn in (1, -1):
        orders(log, 0, 5)
        log.write()
        document = {**ORDER, "properties": dict(list(ORDER["properties"].items())[::turn])}  # type: ignore[attr-defined]
        export(log.root, tmp_path / "target", spec=TargetSpec("parquet", Layout(), EVERYTHING, body=document))
        types += [
            pq.ParquetFile(path).schema_arrow.field("body_json").type for path in tmp_path.glob("target/dt=*/*.parquet")
        ]
    assert len(types) == 3
    assert types[0] == types[1] == types[2]


class _Here(LocalEngine):
    """The local engine without other processes, whatever the log's size."""

    def write(self, *of: Any) -> Iterator[RangeResult]:
        yield from self._write_here(*of)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("layout", "body"),
    [(Layout(table_per_topic=True), {}), (Layout(True, small_topic_bytes=20_000), ORDER)],
    ids=["inferred", "given"],
)
def test_typed_bodies_are_the_same_bytes_in_every_engine(
    layout: Layout, body: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SmallLog(tmp_path / "store")
    for number in range(10):
        orders(log, 100 * number, 100)
        orders(log, number, 1, topic=f"Rare-{number % 3}")
    log.write()
    spec = TargetSpec("parquet", layout, EVERYTHING, body=body)
    engines: dict[str, Engine] = {"here": _Here(2), "pool": LocalEngine(2), "spark": spark_engine()}
    monkeypatch.setattr(local, "_SMALL_BYTES", 0)
    # The number of workers decides how the log is cut.
    assert engines["spark"].workers == engines["pool"].workers == 2
    files = {}
    for name, engine in engines.items():
        with Export(request(log.root, tmp_path / name, spec=spec), engine) as run:
            assert run.run_once().rows == 1010
        files[name] = {
            path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.parquet")
        }
    assert len(files["here"]) > 3
    assert files["here"] == files["pool"] == files["spark"]


def test_schema_inference_reads_no_more_of_a_topic_than_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_exporter.writing import body_inference  # noqa: PLC0415

    log = SmallLog(tmp_path / "store")
    for number in range(400):
        log.append(json.dumps({f"n-{number // 100}": "x" * 400}).encode())
    log.append(b'{"rare": 1}', topic="Rare")
    log.write()
    source = open_source(log.root)
    ranges = source.plan(0, source.find_end(), 4, least_range_bytes=10_000).ranges
    monkeypatch.setattr(body_inference, "SAMPLES", 10)
    monkeypatch.setattr(body_inference, "_STEP", 8_000)
    found = body_inference.infer_bodies(ranges, ScanOptions(), frozenset())
    assert {topic: list(each["properties"]) for topic, each in found.items() if each} == {
        "Orders": ["n-0"],
        "Rare": ["rare"],
    }
    assert list(body_inference.infer_bodies(ranges, ScanOptions(), frozenset({"Orders"}))) == ["Rare"]
