"""Compiled and interpreted selection agree with each other and with a plain loop over decoded messages."""

import json
import random

import pytest

from headrace.errors import RemoteProtocolError
from headrace.model.message import MessageExt
from headrace.model.properties import encode_properties
from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from headrace.protocol.record import decode_record, encode_record
from store.consume_queue.ext_reader import ExtUnit
from store.filter.entry_selector import EntrySelector
from store.filter.message_filter import ExpressionFilter
from store.filter.program import TRUE, Program
from store.filter.pull_limits import PullLimits
from store.filter.sql_compile import compile_expression
from support.interpreted import run_interpreted

FILE_SIZE = 8192
EXPRESSIONS = ("n > 5", "n BETWEEN 2 AND 7 OR s = 'x'", "s IN ('x', 'größe') AND n IS NOT NULL", "n > 100", "n = s")


def random_case(chance: random.Random) -> tuple[bytes, bytes, PullLimits, int, str]:
    """A log of some files, the entries of one queue in it, limits, the end of the log, and an expression."""
    log, entries = bytearray(), []
    for _ in range(chance.randrange(1, 60)):
        value = chance.choice(["x", "größe", "7", ""])
        properties = f"n\x01{chance.randrange(10)}\x02s\x01{value}\x02KEYS\x01k"
        body = bytes(chance.randrange(300))
        left = FILE_SIZE - len(log) % FILE_SIZE
        if left < 700:
            log += bytes(left)
        at = len(log)
        record = encode_record(topic="T", body=body, properties=properties, physical_offset=at)
        entries.append(ENTRY.pack(at, len(record), 0))
        log += record
    if chance.random() < 0.5:
        at = chance.randrange(len(log))
        log[at : at + 300] = bytes(len(log[at : at + 300]))
    end = len(log) if chance.random() < 0.8 else chance.randrange(len(log))
    log += bytes(-len(log) % FILE_SIZE)
    limits = PullLimits(
        chance.choice([0, 1, 3, 32]),
        chance.randrange(len(log)),
        chance.choice([500, 3000, 1 << 18]),
        chance.choice([4, 32]),
        1500,
        8,
    )
    return bytes(log), b"".join(entries), limits, end, chance.choice(EXPRESSIONS)


def selections(given: bytes) -> bytes:
    """The selections in the cases of a seed. Runs in either interpreter."""
    chance = random.Random(int(given))
    answers = []
    for _ in range(60):
        log, entries, limits, end, expression = random_case(chance)
        selected, examined = selector_of(log).select(memoryview(entries), filter_of(expression), no_unit, limits, end)
        answers.append((selected.hex(), examined))
    return json.dumps(answers).encode()


def selector_of(log: bytes) -> EntrySelector:
    def view_around(physical_offset: int) -> memoryview:
        start = physical_offset - physical_offset % FILE_SIZE
        return memoryview(log)[start : start + FILE_SIZE]

    return EntrySelector(view_around, FILE_SIZE)


def filter_of(expression: str) -> ExpressionFilter:
    program = compile_expression(expression)
    assert isinstance(program, Program)
    return ExpressionFilter(program)


def no_unit(_address: int) -> ExtUnit | None:
    raise AssertionError("a filter without bits reads no units")


def decoded(log: bytes, offset: int, size: int) -> MessageExt | None:
    try:
        record = decode_record(log, offset)
    except RemoteProtocolError:
        return None
    return record if (record.physical_offset, record.size_bytes) == (offset, size) else None


def plainly_selected(log: bytes, entries: bytes, limits: PullLimits, end: int, expression: str) -> tuple[bytes, int]:
    """The same as a plain loop."""
    program = filter_of(expression).program
    selected = b""
    count = size_taken = 0
    for number, (offset, size, _) in enumerate(ENTRY.iter_unpack(entries)):
        is_old = offset < limits.in_memory_from
        bytes_max, count_max = (
            (limits.disk_bytes, limits.disk_count) if is_old else (limits.memory_bytes, limits.memory_count)
        )
        if count and (count >= min(limits.max_count, count_max) or size_taken + size > bytes_max):
            return selected, number
        record = None if offset + size > end else decoded(log, offset, size)
        if record is None:
            continue
        if program.outcome_of_stored(encode_properties(record.properties).encode()) == TRUE:
            count += 1
            size_taken += size
            selected += entries[number * ENTRY_SIZE : (number + 1) * ENTRY_SIZE]
    return selected, len(entries) // ENTRY_SIZE


@pytest.mark.parametrize("seed", range(3))
def test_selection_equals_a_plain_loop(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        log, entries, limits, end, expression = random_case(chance)
        found = selector_of(log).select(memoryview(entries), filter_of(expression), no_unit, limits, end)
        assert found == plainly_selected(log, entries, limits, end, expression)


@pytest.mark.slow
def test_compiled_and_interpreted_selection_agree() -> None:
    assert run_interpreted("property.test_entry_selector_compiled_and_interpreted", "selections", b"7") == selections(
        b"7"
    )
