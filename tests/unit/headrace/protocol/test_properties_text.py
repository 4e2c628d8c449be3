import pytest

from headrace.errors import RemoteProtocolError
from headrace.protocol.bodies.properties_text import decode_properties_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("  a\t:\tb", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("# a=b\n! c=d\n\n   \ne=f", {"e": "f"}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=1\na=2", {"a": "2"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b=c", {"a b": "c"}),
        ("path=C\\:\\\\x\\ty", {"path": "C:\\x\ty"}),
        ("a=\\u00e4\\ud83d\\ude00", {"a": "ä😀"}),
        ("namesrvAddr=127.0.0.1:9876;127.0.0.2:9876", {"namesrvAddr": "127.0.0.1:9876;127.0.0.2:9876"}),
        ("a=b\\", {"a": "b"}),
        ("# a comment \\\na=b", {"a": "b"}),
        ("", {}),
    ],
)
def test_properties_text_is_parsed_as_in_java(text: str, expected: dict[str, str]) -> None:
    assert decode_properties_text(text) == expected


def test_incomplete_escape_is_an_error_that_names_the_line() -> None:
    with pytest.raises(RemoteProtocolError, match="line 2"):
        decode_properties_text("a=b\nc=\\u12x4")
