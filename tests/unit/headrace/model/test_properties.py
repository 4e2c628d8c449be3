from typing import Any

import pytest

from headrace.errors import LocalProtocolError
from headrace.model import decode_properties, encode_properties


def test_properties_are_joined_without_a_separator_at_the_end() -> None:
    assert encode_properties({"TAGS": "TagA", "KEYS": "k1 k2"}) == "TAGS\x01TagA\x02KEYS\x01k1 k2"
    assert encode_properties({}) == ""


def test_trailing_separator_is_ignored() -> None:
    assert decode_properties("a\x01b\x02") == decode_properties("a\x01b") == {"a": "b"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("\x01b", {}),  # no name
        ("a\x01", {}),  # no value
        ("ab", {}),  # no separator
        ("a\x01b\x01c", {"a": "b\x01c"}),  # further separators belong to the value
        ("a\x01b\x02a\x01c", {"a": "c"}),  # the later one counts
        ("\x02\x02a\x01b\x02\x02", {"a": "b"}),
    ],
)
def test_invalid_pairs_are_dropped(text: str, expected: Any) -> None:
    assert decode_properties(text) == expected


@pytest.mark.parametrize("properties", [{"a\x01": "b"}, {"a\x02": "b"}, {"a": "b\x02c"}])
def test_properties_with_separators_are_rejected(properties: dict[str, str]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_properties(properties)
