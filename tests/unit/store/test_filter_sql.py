"""SQL92: what is refused and where, what is remembered, and records as they lie in the log."""

import pytest

from headrace.model.properties import decode_properties, encode_properties
from headrace.protocol.record import encode_record
from headrace.protocol.record_layout import MESSAGE_MAGIC, MESSAGE_MAGIC_V2
from store.filter.program import FAILED, FALSE, OUTCOMES, TRUE, UNKNOWN, Program
from store.filter.refusal import Refusal
from store.filter.sql_compile import LENGTH_MAX, compile_expression


def program_of(text: str) -> Program:
    compiled = compile_expression(text)
    assert isinstance(compiled, Program), compiled
    return compiled


def outcome_over(program: Program, properties: dict[str, str]) -> int:
    return program.outcome_of_stored(encode_properties(properties).encode())


def refusal_of(text: str) -> Refusal:
    compiled = compile_expression(text)
    assert isinstance(compiled, Refusal)
    return compiled


@pytest.mark.parametrize(
    ("text", "line", "column", "excerpt", "says"),
    [
        ("price >", 1, 8, "", "ends where a name"),
        ("price > 5 AND\n  city == 'Rome'", 2, 9, "= 'Rome'", "has '=' where a name"),
        ("a = 5 ; b", 1, 7, "; b", "unexpected character"),
        ("a > 'x'", 1, 5, "'x'", "strings cannot be compared"),
        ("a = NULL", 1, 5, "NULL", "use IS NULL"),
        ("TRUE = 5", 1, 1, "TRUE = 5", "constant of another type"),
        ("a BETWEEN 9 AND 1", 1, 11, "9 AND 1", "greater than the second"),
        ("a BETWEEN 1 OR 2", 1, 13, "OR 2", "'AND' is expected"),
        ("5 IN ('x')", 1, 1, "5 IN ('x')", "must be a property name"),
        ("a IN ('x', 5)", 1, 12, "5)", "a string is expected"),
        ("5", 1, 1, "5", "expected a condition"),
        ("a = 1e999", 1, 5, "1e999", "too large"),
        ("a = 0.0", 1, 5, "0.0", "write 0"),
        ("a = 9223372036854775808", 1, 5, "9223372036854775808", "more than 64 bits"),
        ("", 1, 1, "", "ends where a name"),
    ],
)  # fmt: skip
def test_error_names_the_problem_and_its_position(text: str, line: int, column: int, excerpt: str, says: str) -> None:
    refusal = refusal_of(text)
    assert (refusal.line, refusal.column, refusal.excerpt) == (line, column, excerpt)
    assert says in refusal.message
    assert f"line {line}, column {column}" in str(refusal)


def test_expression_is_compiled_once() -> None:
    assert compile_expression("once = 1") is compile_expression("once = 1")
    assert compile_expression("twice =") is compile_expression("twice =")


def test_evaluation_has_four_outcomes() -> None:
    program = program_of("price > 5")
    given = [{"price": "6"}, {"price": "5"}, {}, {"price": "dear"}]
    assert [outcome_over(program, properties) for properties in given] == [TRUE, FALSE, UNKNOWN, FAILED]
    assert [OUTCOMES[outcome_over(program, properties)] for properties in given] == ["TRUE", "FALSE", "NULL", "ERROR"]


@pytest.mark.parametrize(
    "nested", ["(" * 1000 + "a" + ")" * 1000, "NOT " * 1000 + "a", "a" + " = a" * 1000, "a" + " IS NULL" * 1000]
)
def test_too_deeply_nested_expression_is_refused(nested: str) -> None:
    assert "nested" in refusal_of(nested).message


def test_expression_nested_a_hundred_levels_is_accepted() -> None:
    assert outcome_over(program_of("(" * 100 + "a = 5" + ")" * 100), {"a": "5"}) == TRUE
    assert outcome_over(program_of("NOT " * 100 + "(a = 5)"), {"a": "5"}) == TRUE


def test_long_chain_of_conditions_is_accepted() -> None:
    program = program_of(" OR ".join(f"a = {number}" for number in range(5000)))
    assert outcome_over(program, {"a": "4999"}) == TRUE
    assert outcome_over(program, {"a": "5000"}) == FALSE


def test_nested_values_in_between_are_evaluated_once() -> None:
    # A value that was evaluated for each bound would cost twice as much a level: 2 to the power of 60 here.
    text = "a"
    for _ in range(60):
        text = f"-({text}) BETWEEN 1 AND 2"
    assert outcome_over(program_of(text), {"a": "5"}) == UNKNOWN


def test_too_long_expression_is_refused() -> None:
    assert "the limit is" in refusal_of("a = 5" + " " * LENGTH_MAX).message


PROPERTIES = "price\x016\x02city\x01Rome\x02"
V4, V6 = ("127.0.0.1", 10911), ("::1", 10911)


@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("store", [V4, V6])
@pytest.mark.parametrize("magic", [MESSAGE_MAGIC, MESSAGE_MAGIC_V2])
@pytest.mark.parametrize("body", [b"", b"price\x017\x02"])
def test_properties_are_found_in_every_record_layout(
    born: tuple[str, int], store: tuple[str, int], magic: int, body: bytes
) -> None:
    record = encode_record(
        topic="Topic", body=body, properties=PROPERTIES, born_host=born, store_host=store, magic=magic
    )
    view = memoryview(b"what lies before" + record + b"and behind\x02price\x018")
    assert program_of("price = 6 AND city = 'Rome'").outcome_of_record(view, 16) == TRUE
    assert program_of("price = 7 OR price = 8").outcome_of_record(view, 16) == FALSE


def test_record_without_properties_has_none() -> None:
    view = memoryview(encode_record(topic="Topic", body=b"price\x016"))
    assert program_of("price IS NULL").outcome_of_record(view, 0) == TRUE


@pytest.mark.parametrize(
    ("stored", "outcome"),
    [
        (b"a\x01x", TRUE),
        (b"a\x01x\x02", TRUE),
        (b"a\x01y\x02a\x01x", TRUE),
        (b"a\x01x\x02a\x01y", FALSE),
        (b"a\x01x\x02a\x01", TRUE),
        (b"a\x01x\x02a", TRUE),
        (b"b\x01a\x02\x01a\x01x", UNKNOWN),
        (b"ab\x01x", UNKNOWN),
        (b"a\x01x\x01y", FALSE),
        (b"", UNKNOWN),
        (b"\x02\x02a\x01x\x02\x02", TRUE),
    ],
)
def test_properties_are_parsed_as_by_the_codec(stored: bytes, outcome: int) -> None:
    program = program_of("a = 'x'")
    assert program.outcome_of_stored(stored) == outcome
    assert outcome_over(program, decode_properties(stored.decode())) == outcome


def test_invalid_utf_8_is_replaced_before_comparison() -> None:
    assert program_of("a = '\ufffdx'").outcome_of_stored(b"a\x01\xffx") == TRUE
    assert program_of("a = b").outcome_of_stored(b"a\x01\xff\x02b\x01\xfe") == TRUE
    assert program_of("a > 1.5").outcome_of_stored(b"a\x01\xff") == FAILED
