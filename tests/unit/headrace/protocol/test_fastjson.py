import json
import sys
from typing import Any

import pytest

from headrace.errors import RemoteProtocolError
from headrace.model import TopicFilterType
from headrace.protocol import fastjson
from headrace.protocol.fastjson import ObjectKey


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}', {"a": 1}),
        ("{0:1,12:2}", {0: 1, 12: 2}),
        ('{"0":1}', {"0": 1}),
        ("{-1:1}", {-1: 1}),
        ("{a:1,'b':'c'}", {"a": 1, "b": "c"}),
        ('{"a":1,}', {"a": 1}),
        ("[1,2,]", [1, 2]),
        ('{"t":{{"b":"x","q":0}:5}}', {"t": {'{"b":"x","q":0}': 5}}),
        ("{0:true,1:false,2:null}", {0: True, 1: False, 2: None}),
        ("{0:1.5,1:-2e3,2:.5}", {0: 1.5, 1: -2000.0, 2: 0.5}),
        (r"{0:'\u4e2d\x41\t\'\/'}", {0: "中A\t'/"}),
        (r'{0:"\ud83d\ude00"}', {0: "\U0001f600"}),
        (r'{0:"\ud83d"}', {0: "?"}),
        (" \n\t{ 0 : [ ] , 1 : { } } ", {0: [], 1: {}}),
        ("7", 7),
    ],
)
def test_fastjson_dialect_is_decoded(text: str, expected: Any) -> None:
    assert fastjson.loads(text) == expected
    assert fastjson.loads(text.encode()) == expected


@pytest.mark.parametrize(
    "text",
    ["", "{", "{0", "{0:", "{0:1", "{0:1]", "[1 2]", "{0:tru}", '{0:"a', r'{0:"\q"}', r'{0:"\u12"}', "{0:1}x", "not json", "[" * 100_000,
     "{0:" + "9" * 5000 + "}", "{:1}", "{" * 500],
)  # fmt: skip
def test_invalid_json_is_a_protocol_error(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        fastjson.loads(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{"b":"x, {1:2}","q":0}:{7:"a",-3:"b"},"a":0}', {'{"b":"x, {1:2}","q":0}': {7: "a", -3: "b"}, "a": 0}),
        ('{"{0:1}":{0:"{1:","2":"}"}}', {"{0:1}": {0: "{1:", "2": "}"}}),
        ('{"a":[{0:1},{1:[{2:3}]}]}', {"a": [{0: 1}, {1: [{2: 3}]}]}),
        ("{01:2,+3:4}", {1: 2, 3: 4}),
        ('{{"a":1.50,"b":null}:1}', {'{"a":1.5}': 1}),
        ('{{"a":{"b":1}}:1}', {'{"a":{"b":1}}': 1}),
        ("{" + "9" * 30 + ":1}", {10**30 - 1: 1}),
        ('{0:"\u00a1\u00a2"}', {0: "\u00a1\u00a2"}),
    ],
)
def test_keys_without_quotes_keep_their_types(text: str, expected: Any) -> None:
    found = fastjson.loads(text)
    assert found == expected
    assert list(map(type, found)) == list(map(type, fastjson.loads(text, untrusted=True)))
    assert found == fastjson.loads(text, untrusted=True)


def test_large_answers_take_a_few_calls_for_each_queue() -> None:
    """As the progress of a group with a thousand queues. Counted, because a console reads fifty of these for one page."""
    queues = 1_000
    table = {
        ObjectKey(fastjson.dumps({"brokerName": "b", "queueId": n, "topic": "T"})): {"brokerOffset": n}
        for n in range(queues)
    }
    offsets = {"T@G": dict.fromkeys(range(queues), 1)}
    for value, most in (({"offsetTable": table}, 12), ({"offsetTable": offsets}, 8)):
        text = fastjson.dumps(value)
        calls = 0

        def count(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}

        sys.setprofile(count)
        try:
            found = fastjson.loads(text)
        finally:
            sys.setprofile(None)
        assert found == value
        assert calls / queues < most


def test_invalid_utf8_is_replaced() -> None:
    assert fastjson.loads(b"{0:'\xff'}") == {0: "\ufffd"}


def test_compact_text_equals_fastjsons() -> None:
    value: dict[str, Any] = {
        "a": None,
        "b": {0: "x", 10: [1, True, None]},
        "c": {ObjectKey('{"q":0}'): 5},
        "d": TopicFilterType.SINGLE_TAG,
        "e": {},
        "f": [],
    }
    text = '{"b":{0:"x",10:[1,true,null]},"c":{{"q":0}:5},"d":"SINGLE_TAG","e":{},"f":[]}'
    assert fastjson.dumps(value) == text
    assert fastjson.dumps(fastjson.loads(text)) == text


def test_object_keys_stay_object_keys() -> None:
    (key,) = fastjson.loads('{{"q":0}:5}')
    assert isinstance(key, ObjectKey)
    (key,) = fastjson.loads('{"{\\"q\\":0}":5}')
    assert key == '{"q":0}'
    assert not isinstance(key, ObjectKey)


def test_strings_are_escaped_as_fastjson_does() -> None:
    assert (
        fastjson.quote('a"\\/\n\t\x01\x1f\x7f\u2028中\U0001f600')
        == '"a\\"\\\\/\\n\\t\\u0001\\u001F\\u007F\\u2028中\U0001f600"'
    )
    assert fastjson.quote("\ud800") == '"?"'


def test_exactly_the_characters_that_fastjson_escapes_are_escaped() -> None:
    escaped = {*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, ord('"'), ord("\\")}
    for code in range(0x3000):
        text = f"a{chr(code)}b"
        quoted = fastjson.quote(text)
        assert json.loads(quoted) == text
        assert ("\\" in quoted) == (code in escaped), hex(code)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0"), (1.5, "1.5"), (0.001, "0.001"), (1234567.5, "1234567.5"), (1e7, "1.0E7"), (1.25e-5, "1.25E-5"), (-3e20, "-3.0E20"),
     (float("nan"), "null"), (float("inf"), "null"), (0.11666861114351906, "0.11666861114351906"), (123456789.5, "1.234567895E8")],
)  # fmt: skip
def test_numbers_are_formatted_as_in_java(value: float, text: str) -> None:
    assert fastjson.dumps(value) == text


def test_pretty_text_breaks_lines_only_before_string_keys() -> None:
    value = {
        "offsetTable": {"TopicTest@g": {0: 250, 1: 3}, "e": {}},
        "bits": [1, 2, 3],
        "names": ["a", "b"],
        "maps": [{"a": 1}],
        "none": None,
    }
    assert fastjson.dumps_pretty(value) == (
        '{\n\t"offsetTable":{\n\t\t"TopicTest@g":{0:250,1:3\n\t\t},\n\t\t"e":{}\n\t},\n\t"bits":[1,2,3],\n\t"names":["a","b"],\n\t"maps":[\n\t\t{\n\t\t\t"a":1\n\t\t}\n\t]\n}'
    )
    assert fastjson.dumps_pretty({}) == "{}"


def test_standard_text_has_sorted_quoted_keys_and_only_ascii() -> None:
    value = {"b": {10: "x", 2: "a/b"}, "a": ["中\U0001f600", None, 1]}
    assert fastjson.dumps_standard(value) == '{"a":["\\u4E2D\\uD83D\\uDE00",null,1],"b":{"2":"a\\/b","10":"x"}}'


def test_unsupported_type_raises_type_error() -> None:
    with pytest.raises(TypeError):
        fastjson.dumps(object())
    with pytest.raises(TypeError):
        fastjson.dumps({(1,): 2})
