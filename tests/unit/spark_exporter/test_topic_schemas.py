"""A file with a schema for each topic: `headrace export --body json:FILE` with {"topics": {…}}."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from appliance.cli.main import headrace
from spark_exporter.errors import SchemaError
from spark_exporter.planning.plan import open_source
from spark_exporter.running.verify import verify
from spark_exporter.targets.ledger import TargetSpec
from spark_exporter.targets.open_target import open_target
from spark_exporter.writing.body_schema import read_document
from spark_exporter.writing.layout import Layout
from support.exported import EVERYTHING, export
from support.small_log import SmallLog

ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
USER = {"type": "object", "properties": {"who": {"type": "string"}, "is new": {"type": "boolean"}}}
TOPICS = {"topics": {"Orders": ORDER, "%RETRY%users": USER}}


def write_log(root: Path) -> SmallLog:
    log = SmallLog(root)
    for number in range(4):
        log.append(b'{"id": %d}' % number)
        log.append(b'{"who": "u%d", "is new": true}' % number, topic="%RETRY%users")
        log.append(b'{"id": "a topic that is not named stays as it is"}', topic="Others")
    log.append(b'{"who": "of another topic"}')
    log.write()
    return log


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows = [row for path in folder.rglob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(rows, key=lambda row: int(row["commit_log_offset"]))


def test_each_topic_with_a_schema_has_its_own_columns(tmp_path: Path) -> None:
    log, schemas, target = write_log(tmp_path / "store"), tmp_path / "schemas.json", tmp_path / "target"
    schemas.write_text(json.dumps(TOPICS))
    command = ["export", "--engine", "local", "--body", f"json:{schemas}", str(log.root), str(target)]
    done = CliRunner().invoke(headrace, command)
    assert done.exit_code == 0, done.output
    assert "1 bodies do not match their schema" in done.output
    orders, users, others = (rows_of(target / name) for name in ("Orders", "~25RETRY~25users", "Others"))
    assert [(row["body_json"], row["body"]) for row in orders] == [
        *(({"id": number}, None) for number in range(4)),
        (None, b'{"who": "of another topic"}'),
    ]
    assert [row["body_json"] for row in users] == [{"who": f"u{number}", "is~20new": True} for number in range(4)]
    assert all("body_json" not in row and row["body"].startswith(b'{"id"') for row in others)
    assert len(others) == 4
    log.append(b'{"id": 4}')
    log.write()
    again = CliRunner().invoke(headrace, command)
    assert again.exit_code == 0, again.output
    assert rows_of(target / "Orders")[-1]["body_json"] == {"id": 4}
    schemas.write_text(json.dumps({"topics": {"Orders": USER}}))
    other = CliRunner().invoke(headrace, command)
    assert "was created with body" in str(other.exception or other.output)


@pytest.mark.slow
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_tables_of_topics_with_schemas_are_verified(table_format: str, tmp_path: Path) -> None:
    log, target = write_log(tmp_path / "store"), tmp_path / "target"
    spec = TargetSpec(table_format, Layout(table_per_topic=True), EVERYTHING, body=TOPICS)
    summary = export(log.root, target, table_format, spec=spec)
    assert (summary.rows, summary.unfit) == (13, 1)
    verified = verify(open_source(log.root), open_target(str(target)), "broker")
    assert (verified.rows, verified.differences) == (13, ())


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"topics": {}}, "topics must contain at least one topic"),
        ({"topics": [ORDER]}, 'topics: unexpected value [{"type": "object"'),
        ({"topics": {"Orders": None}}, "Orders: #: unexpected value null"),
        (
            {"topics": {"Orders": {"type": "object"}}},
            "Orders: #: an object needs either properties or a schema",
        ),
        ({"topics": {"Orders": ORDER}, "type": "object"}, "type is not allowed together with topics"),
    ],
)
def test_invalid_schemas_file_is_refused_in_one_line(document: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "schemas.json"
    path.write_text(json.dumps(document))
    with pytest.raises(SchemaError) as error:
        read_document(str(path))
    assert str(error.value).startswith(f"{path}: {said}")
    assert "\n" not in str(error.value)
