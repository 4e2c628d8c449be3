"""Numbers in strings, as Java reads them."""

import math

import pytest

from store.filter.java_number import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, read_double, read_integer


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5), ("-5", -5), ("+5", 5), ("007", 7), ("-0", 0), ("2147483647", INT_MAX), ("-2147483648", INT_MIN), ("0" * 5000 + "5", 5),
        ("٥", 5), ("５５", 55),
        ("", None), ("-", None), ("+", None), ("++5", None), (" 5", None), ("5 ", None), ("1_0", None), ("5L", None), ("5.0", None),
        ("2147483648", None), ("-2147483649", None), ("9" * 5000, None), ("𝟓", None), ("²", None), ("0x10", None),
    ],
)  # fmt: skip
def test_integer_is_parsed_as_in_java(text: str, number: int | None) -> None:
    assert read_integer(text, INT_MIN, INT_MAX) == number


def test_long_has_64_bits() -> None:
    assert read_integer("9223372036854775807", LONG_MIN, LONG_MAX) == LONG_MAX
    assert read_integer("-9223372036854775808", LONG_MIN, LONG_MAX) == LONG_MIN
    assert read_integer("9223372036854775808", LONG_MIN, LONG_MAX) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.5", 1.5), ("5.", 5.0), (".5", 0.5), ("-1e3", -1000.0), ("1E+3", 1000.0), ("1.5f", 1.5), ("1D", 1.0), (" \t1.5\x00 ", 1.5),
        ("Infinity", math.inf), ("-Infinity", -math.inf), ("1e400", math.inf), ("1e-400", 0.0),
        ("0x1p4", 16.0), ("0x.8p1", 1.0), ("-0x1.8p1f", -3.0), ("0x1p99999", math.inf), ("-0x1p99999", -math.inf),
        ("", None), (".", None), ("e5", None), ("1e", None), ("1.5L", None), ("NaNf", None), ("nan", None), ("inf", None), ("0x1.8", None),
        ("1_0", None), ("٥", None), ("\xa05", None), ("1 5", None), ("1ff", None), ("--1", None),
    ],
)  # fmt: skip
def test_double_is_parsed_as_in_java(text: str, number: float | None) -> None:
    assert read_double(text) == number


def test_nan_is_a_double_but_not_a_number() -> None:
    for text in ("NaN", "+NaN", "-NaN"):
        number = read_double(text)
        assert number is not None
        assert math.isnan(number)
