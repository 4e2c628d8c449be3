"""SQL92 means what a straightforward evaluator of the same tree says, however it is written down and wherever the properties come from.

The evaluator here works on the trees that hypothesis makes, by the rules of store spec 13.6, and knows nothing of the product's parser
and program. What RocketMQ's own classes say is in tests/golden/test_filters_are_rocketmqs.py.
"""

import math
import re
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.model.properties import encode_properties
from store.filter.program import OUTCOMES, Program
from store.filter.refusal import Refusal
from store.filter.sql_compile import compile_expression

Tree = tuple[Any, ...]

NAMES = ["a", "b", "A", "$price", "_x9"]
TEXTS = ["", "x", "5", "true", "it's", "größe", "日本", "😀", "1.5"]
VALUES = [
    *TEXTS, "0", "-7", "+7", "007", "2147483648", "-9223372036854775808", "9223372036854775808", "1e3", "-0.0", "NaN", "-Infinity",
    " 5", "5f", "TRUE", "0x10", "123456789.123456789", "1.", ".5", "-", "٥", "1\x7f2",
]  # fmt: skip


class Failed(Exception):  # noqa: N818
    """The expression cannot be evaluated."""


# ---- the plain evaluator ----


def evaluate(tree: Tree, properties: dict[str, str]) -> Any:
    """True, False, None (unknown), a number, a string. Integers are (value, bits). Raises Failed."""
    kind, *parts = tree
    if kind in ("truth", "integer", "double", "text"):
        return parts[0]
    if kind == "name":
        return properties.get(parts[0])
    if kind == "cast":
        return None if properties.get(parts[0]) is None else False
    if kind == "minus":
        value = evaluate(parts[0], properties)
        if isinstance(value, tuple):
            return -value[0], value[1]
        return -value if isinstance(value, float) else None
    if kind == "not":
        value = evaluate(parts[0], properties)
        return None if value is None else not value
    if kind in ("and", "or"):
        decisive = kind == "or"
        left = evaluate(parts[0], properties)
        if left is decisive:
            return left
        right = evaluate(parts[1], properties)
        if right is decisive:
            return right
        return None if left is None or right is None else not decisive
    if kind == "is null":
        return evaluate(parts[0], properties) is None
    if kind == "in":
        value = properties.get(parts[0])
        return None if value is None else value in parts[1]
    if kind == "between":
        value, low, high = parts
        return evaluate(("and", ("compare", ">=", value, low), ("compare", "<=", value, high)), properties)
    _, sign, one, other = tree
    return compare(sign, evaluate(one, properties), lambda: evaluate(other, properties))


def compare(sign: str, left: Any, right_of: Any) -> bool | None:
    """One of = <> < <= > >=."""
    if sign in ("=", "<>"):
        answer = equals(left, right_of())
        return answer if answer is None else answer == (sign == "=")
    if left is None:
        return None
    right = right_of()
    if right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        left, right = to_double(left), to_double(right)
    order = ordered(*converted(left, right))
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


def equals(left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return True if left is right else None if left is None else False
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    if isinstance(left, bool):
        if isinstance(right, str):
            raise Failed
        return left is right
    if isinstance(right, bool):
        return isinstance(left, str) and (left.lower() == "true" and len(left) == 4) == right
    return ordered(*converted(left, right)) == 0


def converted(left: Any, right: Any) -> tuple[Any, Any]:
    """Two numbers of one kind."""
    if isinstance(left, str):
        left = to_kind_of(right, left)
    if isinstance(right, str):
        right = to_kind_of(left, right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return left[0], right[0]
    return tuple(float(number[0]) if isinstance(number, tuple) else number for number in (left, right))  # type: ignore[return-value]


def to_kind_of(number: Any, text: str) -> Any:
    if isinstance(number, float):
        return to_double(text)
    limit = 1 << number[1] - 1
    if not re.fullmatch(r"[+-]?\d+", text) or not -limit <= int(text) < limit:
        raise Failed
    return int(text), number[1]


def to_double(text: str) -> float:
    found = re.fullmatch(
        r"\s*([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))([fFdD]?)\s*", text
    )
    if not found or (found[2] and found[1][-1] in "Ny"):
        raise Failed
    return float(found[1])


def ordered(left: Any, right: Any) -> int:
    """As Java orders numbers: -0.0 before 0.0, NaN behind all else."""

    def key(number: Any) -> tuple[bool, Any, float]:
        if isinstance(number, float):
            return (
                math.isnan(number),
                0.0 if math.isnan(number) else number,
                math.copysign(1.0, number) if number == 0 else 0.0,
            )
        return False, number, 0.0

    return (key(left) > key(right)) - (key(left) < key(right))


# ---- trees and their text ----


def in_order(tree: Tree) -> Tree:
    """A BETWEEN whose constant bounds are in order; else it is refused."""
    kind, value, low, high = tree
    constants = ("integer", "double")
    if low[0] in constants and high[0] in constants and ordered(*converted(low[1], high[1])) > 0:
        low, high = high, low
    return kind, value, low, high


def of_values(tree: Tree) -> Tree:
    """A comparison with NULL is refused, and a name in one is a value, not a truth."""
    named = (("name", part[1]) if part[0] == "cast" else part for part in tree)
    return tuple(("truth", True) if part == ("truth", None) else part for part in named)


integers = st.one_of(
    st.integers(0, 20), st.sampled_from([2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1]), st.integers(0, 2**63 - 1)
)
numbers = st.one_of(
    integers.map(lambda number: ("integer", (number, 32 if number < 2**31 else 64))),
    st.one_of(st.sampled_from([0.5, 1.5, 1e3, 1e22, 5e-324]), st.floats(1e-300, 1e300)).map(
        lambda real: ("double", real)
    ),
)
names = st.sampled_from(NAMES).map(lambda name: ("name", name))
measures = st.one_of(names, names, numbers, st.one_of(numbers, names).map(lambda part: ("minus", part)))
leaves = st.one_of(
    st.sampled_from([True, False, None]).map(lambda truth: ("truth", truth)),
    st.sampled_from(NAMES).map(lambda name: ("cast", name)),
    st.tuples(st.just("compare"), st.sampled_from(["<", "<=", ">", ">="]), measures, measures),
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), measures, st.one_of(measures, st.sampled_from(TEXTS).map(lambda text: ("text", text)))),
    st.tuples(st.just("in"), st.sampled_from(NAMES), st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3)),
    st.tuples(st.just("is null"), st.one_of(names, numbers)),
    st.tuples(st.just("between"), measures, measures, measures).map(in_order),
)  # fmt: skip
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("is null"), inner),
        st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), st.one_of(names, inner), inner).map(of_values),
        st.tuples(st.just("compare"), st.sampled_from(["<", ">="]), inner.map(lambda part: ("minus", part)), measures),
    ),
    max_leaves=8,
)
properties_ = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))


def text_of(tree: Tree, space: str) -> str:
    """The tree written down, each part in parentheses where it has parts."""
    kind, *parts = tree
    if kind == "truth":
        return {True: "TRUE", False: "false", None: "Null"}[parts[0]]
    if kind in ("name", "cast"):
        return str(parts[0])
    if kind == "integer":
        number, bits = parts[0]
        return f"{number}L" if bits == 64 else str(number)
    if kind == "double":
        return repr(parts[0]).replace("inf", "")
    if kind == "text":
        return quoted(parts[0])
    if kind == "in":
        return f"{parts[0]}{space}IN{space}({','.join(map(quoted, parts[1]))})"
    if kind == "minus":
        return f"-{space}({text_of(parts[0], space)})"
    inner = [f"({text_of(part, space)})" for part in parts if isinstance(part, tuple)]
    if kind == "not":
        return f"NOT{space}{inner[0]}"
    if kind == "is null":
        return f"{inner[0]}{space}IS{space}NULL"
    if kind == "between":
        return f"{inner[0]} BETWEEN{space}{inner[1]}AND{space}{inner[2]}"
    word = parts[0] if kind == "compare" else kind.upper()
    return f"{inner[0]}{space}{word}{space}{inner[1]}"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def outcome_of(tree: Tree, properties: dict[str, str]) -> str:
    try:
        value = evaluate(tree, properties)
    except Failed:
        return "ERROR"
    return {True: "TRUE", False: "FALSE", None: "NULL"}[value]


@settings(max_examples=250, deadline=None)
@given(trees, properties_, st.sampled_from([" ", "\n", " /* a comment */ ", " -- to here\n"]))
@example(("compare", "=", ("name", "a"), ("double", 5e-324)), {"a": "5e-324"}, " ")
def test_a_program_agrees_with_the_plain_evaluator(tree: Tree, properties: dict[str, str], space: str) -> None:
    text = text_of(tree, space)
    program = compile_expression(text)
    assert isinstance(program, Program), (text, program)
    stored = encode_properties(properties).encode()
    # What is empty cannot be stored: it is missing.
    storable = {name: value for name, value in properties.items() if value}
    assert OUTCOMES[program.outcome_of_stored(stored)] == outcome_of(tree, storable), text


WORDS = st.sampled_from([
    "a", "b", "5", "1.5", "'x'", "TRUE", "NULL", "AND", "OR", "NOT", "IN", "IS", "BETWEEN", "=", "<>", "<", ">=", "(", ")", ",", "+", "-", "--",
    "\n", "/*", "*/", "'", ";", "9223372036854775808", "1e999", "é",
])  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(st.one_of(st.lists(WORDS, max_size=12).map(" ".join), st.text(max_size=30)))
def test_any_text_is_a_program_or_is_refused_at_a_place_within_it(text: str) -> None:
    compiled = compile_expression(text)
    if isinstance(compiled, Refusal):
        lines = text.split("\n")
        assert 1 <= compiled.line <= len(lines)
        assert 1 <= compiled.column <= len(lines[compiled.line - 1]) + 1
        assert lines[compiled.line - 1][compiled.column - 1 :].startswith(compiled.excerpt.split("\n")[0])
    else:
        assert compiled.outcome_of_stored(b"") in range(len(OUTCOMES))


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=60),
    st.sampled_from(["a = 'x'", "a > 5 OR a = b", "a BETWEEN 1.5 AND b", "a IN ('x', '\ufffd')", "a = '\ufffd'"]),
)
def test_any_bytes_as_properties_have_the_outcome_of_what_they_decode_to(noise: bytes, text: str) -> None:
    stored = b"a\x01" + noise
    program = compile_expression(text)
    assert isinstance(program, Program)
    pairs = [piece.partition(b"\x01") for piece in stored.split(b"\x02")]
    decoded = {
        name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs if name and value
    }
    assert program.outcome_of_stored(stored) == program.outcome_of_stored(encode_properties(decoded).encode())
