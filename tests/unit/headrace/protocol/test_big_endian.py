"""Big-endian loads and stores in plain Python; the compiled ones are run against these in tests/fuzz."""

import pytest

from headrace.protocol import big_endian


@pytest.mark.parametrize(
    ("load", "data", "value"),
    [
        (big_endian.load_u16, b"\x80\x01", 0x8001),
        (big_endian.load_i16, b"\x80\x01", 0x8001 - 0x10000),
        (big_endian.load_u32, b"\xff\xff\xff\xea", 0xFFFFFFEA),
        (big_endian.load_i32, b"\xff\xff\xff\xea", -22),
        (big_endian.load_i64, b"\x80" + bytes(7), -(1 << 63)),
    ],
)
def test_load_is_signed_or_unsigned_as_named(load, data: bytes, value: int) -> None:  # noqa: ANN001  (one of five functions)
    assert load(b"x" + data, 1) == value


def test_stored_value_is_loaded_again() -> None:
    memory = memoryview(bytearray(12))
    big_endian.store_i32(memory, 0, -5)
    big_endian.store_i64(memory, 4, -(1 << 40))
    assert (big_endian.load_i32(memory, 0), big_endian.load_i64(memory, 4)) == (-5, -(1 << 40))


def test_find_byte_searches_only_the_given_range() -> None:
    assert [big_endian.find_byte(b"a.b.c", 46, *places) for places in ((0, 5), (2, 5), (4, 5), (0, 1), (5, 2))] == [
        1,
        3,
        -1,
        -1,
        -1,
    ]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 40])
def test_equal_length_ends_at_the_first_byte_that_differs(length: int) -> None:
    text = bytes(range(length))
    assert big_endian.equal_length(b"##" + text, 2, b"#" + text, 1, length) == length
    for differs in range(length):
        other = text[:differs] + b"\xff" + text[differs + 1 :]
        assert big_endian.equal_length(b"##" + text, 2, b"#" + other, 1, length) == differs


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 40])
def test_copy_until_ends_at_the_first_byte_of_that_value(length: int) -> None:
    text = bytes(range(1, length + 1))
    to = memoryview(bytearray(64))
    assert big_endian.copy_until(to, 3, b"##" + text + b"\0", 2, 2 + length, 0) == length
    assert bytes(to[3 : 3 + length]) == text
    for byte in text:
        assert big_endian.copy_until(to, 3, b"##" + text, 2, 2 + length, byte) == byte - 1
