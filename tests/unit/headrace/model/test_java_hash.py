from typing import Any

import pytest

from headrace.model import string_hash, tags_code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("中文", 646394),
        ("TopicTest#order-1001", 1043804929),
        ("polygenelubricants", -2147483648),
        ("\U0001f600", 1772899),
    ],
)
def test_string_hash_equals_javas(text: str, expected: Any) -> None:
    assert string_hash(text) == expected


def test_missing_tags_have_the_code_zero() -> None:
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("TagA || TagB") == string_hash("TagA || TagB")
