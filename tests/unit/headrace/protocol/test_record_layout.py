"""The layouts of records, batches, frames, queue entries and index files are known in one place each."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model import names
from headrace.protocol import consume_queue_layout, record_layout
from headrace.protocol.record import encode_record
from headrace.protocol.record_layout import (
    FIXED_V4,
    FRONT,
    HEAD,
    HOSTLESS_SIZE,
    NO_ROOM,
    OFFSETS,
    PHYSICAL_OFFSET_AT,
    PREFIX,
    RECORD_OVERHEAD,
    STORE_TIMESTAMP_SIZE,
    SYS_FLAG_AT,
    TAIL,
    TAIL_SIZE,
    WHOLE,
    WRONG_LENGTHS,
    WRONG_PLACE,
    read_property,
    read_record,
)

ROOT = Path(__file__).resolve().parents[4]
LAYOUTS = (
    "headrace.protocol.record_layout",
    "headrace.protocol.frame_layout",
    "headrace.protocol.consume_queue_layout",
    "store.index.layout",
)
PACKAGES = ("appliance", "broker", "headrace", "ipc", "nameserver", "pyspark_commitlog", "spark_exporter", "store")
LOADS = re.compile(r"(load|store)_[iu]\d+")
FORMATS = {one.format for one in (HEAD, FRONT, TAIL, FIXED_V4, OFFSETS, consume_queue_layout.ENTRY)}
MAGICS = {sign * number for number in (0xDAA320A7, 0xDAA320AB, 0xCBD43194) for sign in (1, -1)}
MAGICS |= {sign * (number - (1 << 32)) for number in (0xDAA320A7, 0xDAA320AB, 0xCBD43194) for sign in (1, -1)}


@pytest.mark.parametrize("module", LAYOUTS)
def test_compiled_and_python_layouts_have_the_same_numbers(module: str) -> None:
    types = (ROOT / module.replace(".", "/") / "__init__.pxd").read_text()
    numbers = {name: int(value, 0) for name, value in re.findall(r"^    ([A-Z]\w+) = (-?\w+)", types, re.MULTILINE)}
    assert len(numbers) > 2
    from headrace.model import host, sys_flag  # noqa: PLC0415

    for name, value in numbers.items():
        places = [importlib.import_module(module), host, sys_flag]
        found = [getattr(place, name) for place in places if hasattr(place, name)]
        assert found[:1] == [value], name


def test_formats_agree_with_the_offsets() -> None:
    assert record_layout.MAX_TOPIC_LENGTH == names.MAX_TOPIC_LENGTH
    assert PREFIX.size == record_layout.BODY_CRC_AT
    assert HEAD.size == record_layout.BORN_TIMESTAMP_AT
    assert FRONT.size == record_layout.BORN_HOST_AT
    assert TAIL.size == TAIL_SIZE
    assert FRONT.size + STORE_TIMESTAMP_SIZE + TAIL_SIZE + record_layout.LENGTHS_SIZE == HOSTLESS_SIZE
    assert FIXED_V4.size + record_layout.LENGTHS_SIZE == RECORD_OVERHEAD
    assert OFFSETS.size + record_layout.QUEUE_OFFSET_AT == SYS_FLAG_AT == record_layout.PHYSICAL_OFFSET_END
    assert record_layout.BATCH_HEAD.size == record_layout.BATCH_BODY_AT


def sources() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            # A host and a message id are formats of their own, in the model.
            if not name.startswith(
                ("headrace/protocol/record_layout/", "headrace/protocol/consume_queue_layout/", "headrace/model/")
            ):
                yield name, ast.parse(path.read_text())


def bare_numbers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value in MAGICS:
            yield node.lineno, "a magic number"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in FORMATS:
            yield node.lineno, "a format of records"
        if isinstance(node, ast.Call) and LOADS.fullmatch(getattr(node.func, "id", getattr(node.func, "attr", ""))):
            literals = (part for argument in node.args[1:2] for part in ast.walk(argument))
            if any(isinstance(part, ast.Constant) and part.value != 0 for part in literals):
                yield node.lineno, "a number as the place of a load or store"
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", "") == "from_bytes"
            and [ast.unparse(part) for part in node.args[1:2]] == ["'big'"]
        ):
            lower = getattr(getattr(node.args[0], "slice", None), "lower", None)
            if lower is not None and any(
                isinstance(part, ast.Constant) and part.value != 0 for part in ast.walk(lower)
            ):
                yield node.lineno, "a number as the place of a number"


def test_no_other_module_contains_an_offset_or_magic_number_of_records() -> None:
    found = [f"{name}:{line}: {what}" for name, tree in sources() for line, what in bare_numbers(tree)]
    assert found == []


def test_no_types_of_another_module_repeat_a_layout() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.pxd"):
            if path.parent.name not in {"record_layout", "frame_layout", "consume_queue_layout", "layout"}:
                assert not re.search(r"\b\d{9}\b|MAGIC\w* =|_AT = ", path.read_text()), path


@pytest.mark.parametrize("hosts", [("1.2.3.4", "5.6.7.8"), ("::1", "1.2.3.4"), ("1.2.3.4", "::1"), ("::1", "::1")])
@pytest.mark.parametrize("magic", [record_layout.MESSAGE_MAGIC, record_layout.MESSAGE_MAGIC_V2])
def test_every_field_of_a_record_is_found(hosts: tuple[str, str], magic: int) -> None:
    record = encode_record(
        topic="Topic", body=b"the body", properties=b"a\x01b", physical_offset=70, born_host=(hosts[0], 1),
        store_host=(hosts[1], 2), store_timestamp=99, magic=magic,
    )  # fmt: skip
    data = b"before" + record + b"behind"
    parts = read_record(data, 6, len(data), 70)
    assert (parts.outcome, parts.size, parts.magic) == (WHOLE, len(record), magic)
    assert data[parts.body_at :][: parts.body_length] == b"the body"
    assert data[parts.topic_at :][: parts.topic_length] == b"Topic"
    assert data[parts.properties_at :][: parts.properties_length] == b"a\x01b"
    assert data[parts.store_timestamp_at : parts.store_host_at] == (99).to_bytes(8, "big")
    assert data[parts.tail_at - 1] == 2


def test_invalid_record_has_a_reason() -> None:
    record = encode_record(topic="T", body=b"b", physical_offset=5)
    assert read_record(record, 0, len(record), 5).outcome == WHOLE
    assert read_record(record, 0, len(record) - 1, 5).outcome == NO_ROOM
    assert read_record(record, -1, len(record), 5).outcome == NO_ROOM
    assert read_record(record, 0, 7, 5).outcome == NO_ROOM
    assert read_record(record, 0, len(record), 6).outcome == WRONG_PLACE
    for size in (-1, 0, 91, len(record) - 1):
        assert (
            read_record(size.to_bytes(4, "big", signed=True) + record[4:], 0, len(record), 5).outcome == WRONG_LENGTHS
        )


def test_changed_bytes_never_cause_reads_beyond_the_record() -> None:
    record = bytearray(encode_record(topic="T", body=b"b", properties=b"a\x01b\x02", physical_offset=5))
    for at in range(len(record)):
        kept = record[at]
        for byte in (0, 1, 0x7F, 0x80, 0xFF):
            record[at] = byte
            parts = read_record(bytes(record), 0, len(record), 5)
            if parts.outcome == WHOLE:
                assert parts.properties_at + parts.properties_length == parts.size == len(record)
        record[at] = kept


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a\x01b", [(b"a", b"b")]),
        (b"a\x01b\x02", [(b"a", b"b")]),
        (b"a\x01b\x02\x02c\x01d\x01e", [(b"a", b"b"), (b"c", b"d\x01e")]),
        (b"\x01b\x02a\x01\x02a\x02\x01", []),
        (b"", []),
    ],
)
def test_properties_without_a_name_or_value_are_ignored(text: bytes, expected: list[tuple[bytes, bytes]]) -> None:
    found, at = [], 0
    while at < len(text):
        parts = read_property(text, at, len(text))
        if parts.name_length:
            found.append((text[at : at + parts.name_length], text[parts.value_at : parts.end]))
        at = parts.end + 1
    assert found == expected


def test_physical_offset_is_at_its_documented_position() -> None:
    record = encode_record(topic="T", body=b"b", physical_offset=1 << 40)
    assert int.from_bytes(record[PHYSICAL_OFFSET_AT:SYS_FLAG_AT], "big") == 1 << 40
