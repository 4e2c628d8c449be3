"""`headrace store dump` on stores that Apache's brokers wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from support import golden
from support.headrace_process import headrace

pytestmark = pytest.mark.slow


def sizes(expected: list[dict[str, Any]]) -> list[str]:
    """The options for the sizes of this store's IndexFiles."""
    header = next((line for line in expected if line["kind"] == "index"), None)
    return [] if header is None else ["--slots", str(header["slots"]), "--entries", str(header["entries"])]


def dumped(*arguments: str | Path) -> list[dict[str, Any]]:
    said = headrace("store", "dump", "--json", *arguments)
    assert (said.returncode, said.stderr) == (0, "")
    return [json.loads(line) for line in said.stdout.splitlines()]


@pytest.mark.parametrize("name", golden.stores())
def test_dump_prints_all_contents_of_a_store(tmp_path: Path, name: str) -> None:
    expected = [line for line in golden.expected(name) if line["kind"] not in {"store", "file"}]
    assert dumped("--all", *sizes(expected), golden.unpack(name, tmp_path)) == expected


def test_dump_prints_records_from_an_offset(tmp_path: Path) -> None:
    records = [line for line in golden.expected("plain") if line["kind"] in {"record", "blank", "end"}]
    store = golden.unpack("plain", tmp_path)
    assert dumped(store) == records
    tenth = records[9]["offset"]
    assert dumped(store, "--from", str(tenth)) == records[9:]


def test_dump_prints_one_queue_or_the_index(tmp_path: Path) -> None:
    expected = list(golden.expected("plain"))
    store = golden.unpack("plain", tmp_path)
    first = next(line for line in expected if line["kind"] == "queue")
    topic, queue_id = first["topic"], first["queueId"]
    entries = [
        line for line in expected if line["kind"] == "queue" and (line["topic"], line["queueId"]) == (topic, queue_id)
    ]
    assert dumped(store, "--queue", f"{topic}:{queue_id}") == entries
    index = [line for line in expected if line["kind"].startswith("index")]
    assert dumped(store, "--index", *sizes(expected)) == index


def test_text_output_has_one_line_per_record(tmp_path: Path) -> None:
    said = headrace("store", "dump", golden.unpack("plain", tmp_path))
    records = [line for line in golden.expected("plain") if line["kind"] == "record"]
    lines = [line for line in said.stdout.splitlines() if line.startswith("record ")]
    assert len(lines) == len(records)
    assert f"offset={records[3]['offset']} " in lines[3]
    assert f"topic={records[3]['topic']} " in lines[3]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere"], 1, "headrace: nowhere: no such folder\n"),
        (["empty"], 1, "headrace: empty is not a store: it contains no commitlog folder\n"),
        (["data"], 1, "headrace: data is not a store: it contains no commitlog folder; did you mean data/store?\n"),
        (["data/store", "--queue", "T"], 2, "T: expected TOPIC:ID"),
        (["data/store", "--queue", "T:1", "--index"], 2, "--queue and --index are mutually exclusive"),
        (["data/store", "--all", "--from", "7"], 2, "--all and --from are mutually exclusive"),
        ([], 2, "Missing argument 'PATH'"),
    ],
)
def test_dump_reports_what_it_cannot_read(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "data" / "store" / "commitlog").mkdir(parents=True)
    said = headrace("store", "dump", *arguments, cwd=tmp_path)
    assert said.returncode == code
    assert message in said.stderr
    assert said.stdout == ""
