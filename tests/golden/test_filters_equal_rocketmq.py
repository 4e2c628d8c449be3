"""SQL92 filters, Bloom filters and bit maps give the same results as RocketMQ's own classes (tests/golden/making)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.model.properties import PROPERTY_SEPARATOR, encode_properties
from store.consume_queue.ext_reader import ExtUnit
from store.filter.bit_map import BitMapCalculator
from store.filter.bloom import BloomFilter, BloomFilterData, is_hit
from store.filter.consumer_filter import decode_filters, encode_filters
from store.filter.message_filter import ExpressionFilter
from store.filter.program import OUTCOMES, TRUE, Program
from store.filter.sql_compile import compile_expression
from support import golden
from support.interpreted import run_interpreted

TABLE = golden.GOLDEN / "sql92.jsonl.xz"
VECTORS = golden.GOLDEN / "bloom.jsonl"


def storable_cases() -> list[dict[str, Any]]:
    """The cases whose properties can be stored: none is empty or contains a separator. No expression uses others."""
    cases = []
    for case in golden.lines(TABLE):
        left_out = {name for name, value in case["properties"].items() if not value or PROPERTY_SEPARATOR in value}
        if not left_out & set(re.findall(r"[\w$]+", case["expression"])):
            kept = {name: value for name, value in case["properties"].items() if name not in left_out}
            cases.append(case | {"properties": kept})
    return cases


def outcomes_of(cases: list[dict[str, Any]], end: bytes = b"") -> list[str]:
    """Outcomes of the cases. `end` is the text after the last stored property."""
    return [outcome_of(case["expression"], stored(case["properties"]) + end) for case in cases]


def outcome_of(expression: str, properties: bytes) -> str:
    program = compile_expression(expression)
    return OUTCOMES[program.outcome_of_stored(properties)] if isinstance(program, Program) else "REFUSED"


def stored(properties: dict[str, str]) -> bytes:
    return encode_properties(properties).encode()


def differing(cases: list[dict[str, Any]], outcomes: list[str]) -> list[tuple[Any, ...]]:
    return [
        (case["expression"], case["properties"], case["outcome"], outcome)
        for case, outcome in zip(cases, outcomes, strict=True)
        if case["outcome"] != outcome
    ]


def test_every_expression_evaluates_as_in_rocketmq() -> None:
    cases = storable_cases()
    assert len(cases) > 2000
    assert {case["outcome"] for case in cases} == {"TRUE", "FALSE", "NULL", "ERROR", "REFUSED"}
    assert differing(cases, outcomes_of(cases)) == []
    # RocketMQ 5 and releases before 4.9 also write a separator after the last property.
    assert differing(cases, outcomes_of(cases, PROPERTY_SEPARATOR.encode())) == []


def outcomes_in_this_interpreter(given: bytes) -> bytes:
    """Runs in either interpreter."""
    return json.dumps(outcomes_of([json.loads(line) for line in given.splitlines()])).encode()


@pytest.mark.slow
def test_every_expression_evaluates_as_in_rocketmq_when_interpreted() -> None:
    cases = storable_cases()
    given = "".join(json.dumps(case) + "\n" for case in cases).encode()
    outcomes = json.loads(run_interpreted("golden.test_filters_equal_rocketmq", "outcomes_in_this_interpreter", given))
    assert differing(cases, outcomes) == []


def test_bloom_filters_equal_rocketmqs() -> None:
    for vector in golden.lines(VECTORS):
        bloom = BloomFilter(vector["error"], vector["expected"])
        positions = bloom.positions_of(vector["name"])
        assert (bloom.bit_count, positions) == (vector["bits"], vector["positions"]), vector["name"]
        assert bloom.map_of([BloomFilterData(positions, bloom.bit_count)]).hex() == vector["map"]


def test_consumer_filters_round_trip_unchanged(tmp_path: Path) -> None:
    for store in ("ext", "kinds"):
        text = (golden.unpack(store, tmp_path) / "config" / "consumerFilter.json").read_text()
        table = decode_filters(text.encode())
        assert encode_filters(table) == text
        bloom = BloomFilter()
        for topic, groups in table.items():
            for group, data in groups.items():
                assert data.bloom_filter_data == bloom.data_of(group, topic)


def test_bit_maps_equal_rocketmqs(tmp_path: Path) -> None:
    root = golden.unpack("ext", tmp_path)
    lines = list(golden.expected("ext"))
    records = {line["offset"]: line for line in lines if line["kind"] == "record"}
    calculator = BitMapCalculator(root / "config" / "consumerFilter.json", BloomFilter())
    entries = [line for line in lines if line["kind"] == "queue" and "extBitMap" in line]
    assert len(entries) > 300
    wrong = []
    for entry in entries:
        record = records[entry["offset"]]
        bit_map = calculator(record["topic"].encode(), record["offset"], stored(record["properties"]))
        if bit_map.hex().upper() != entry["extBitMap"]:
            wrong.append((record["properties"], entry["extBitMap"], bit_map.hex()))
    assert wrong == []


def test_rocketmq_bit_maps_exclude_only_unwanted_messages(tmp_path: Path) -> None:
    root = golden.unpack("ext", tmp_path)
    lines = list(golden.expected("ext"))
    records = {line["offset"]: line for line in lines if line["kind"] == "record"}
    kept_back = passed = 0
    for data in decode_filters((root / "config" / "consumerFilter.json").read_bytes())["Ext"].values():
        program = data.program()
        assert program is not None
        assert data.bloom_filter_data is not None
        wanted = ExpressionFilter(program, data.bloom_filter_data, data.born_time)
        for entry in lines:
            if entry["kind"] != "queue" or not entry.get("extBitMap"):
                continue
            unit = ExtUnit(
                entry["extSize"], entry["extTagsCode"], entry["extStoreTime"], bytes.fromhex(entry["extBitMap"])
            )
            is_true = program.outcome_of_stored(stored(records[entry["offset"]]["properties"])) == TRUE
            matches = wanted.match_entry(entry["tagsCode"], unit)
            assert matches or not is_true
            assert matches == is_hit(data.bloom_filter_data, unit.bit_map)
            kept_back += not matches
            passed += matches
    assert kept_back > 300
    assert passed > 300
