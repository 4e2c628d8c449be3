"""`dump` prints what RocketMQ's own classes read in RocketMQ's stores, line by line."""

import json
from itertools import zip_longest
from pathlib import Path

import pytest

from store.inspect.dump import dump_all, dump_queue, dump_records
from support import golden


@pytest.mark.slow
@pytest.mark.parametrize("name", golden.stores())
def test_dump_equals_what_rocketmq_reads(name: str, tmp_path: Path) -> None:
    head, *lines = golden.expected(name)
    settings = head["settings"]
    root = golden.unpack(name, tmp_path)
    wanted = [line for line in lines if line["kind"] != "file"]
    said = list(dump_all(root, settings["maxHashSlotNum"], settings["maxIndexNum"]))
    for ours, theirs in zip_longest(said, wanted):
        assert ours == theirs


def test_every_dump_line_is_json(tmp_path: Path) -> None:
    root = golden.unpack("lmq", tmp_path)
    for line in dump_all(root, 100, 500):
        assert json.loads(json.dumps(line)) == line


def test_dump_of_one_queue_or_from_an_offset_is_part_of_the_full_dump(tmp_path: Path) -> None:
    root = golden.unpack("lmq", tmp_path)
    whole = list(dump_all(root, 100, 500))
    light = [line for line in whole if line["kind"] == "queue" and line["topic"] == "%LMQ%all"]
    assert light
    assert list(dump_queue(root, "%LMQ%all", 0)) == light
    records = [line for line in whole if line["kind"] in ("record", "blank", "end")]
    assert list(dump_records(root, records[10]["offset"])) == records[10:]


def test_dump_of_an_unknown_queue_is_empty(tmp_path: Path) -> None:
    assert list(dump_queue(tmp_path, "Missing", 0)) == []
