"""RocketMQ's dialect of JSON, as its library fastjson writes and reads it: bodies on the wire, and the files under `config/`.

It differs from JSON in its keys: maps with integer keys are written `{0:"a",1:"b"}` and maps with objects as keys
`{{"brokerName":"b","queueId":0,"topic":"T"}:5}`. Its reader also accepts names without quotes or in single quotes, extra commas, and numbers
in quotes. Here

    an integer key is an int;  in quotes it is a str: a caller that expects integers says int(key)
    an object key is an ObjectKey, the text of the object; in quotes it is a str with the same text
    a key whose value is None is not written, as fastjson does

Standard JSON is parsed by msgspec; text that it rejects is parsed again by the slow parser below. Text from any peer is parsed with `untrusted`:
the number of its values and the size of non-standard JSON are limited, so that parsing takes at most some ten milliseconds. Other text, such as answers of brokers
with a hundred thousand queues, is given to msgspec once more with its integer and object keys in quotes.
"""

import math
import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, Final

import msgspec

from headrace.errors import RemoteProtocolError

MAX_BYTES: Final = (
    4 << 20
)  # limit: of untrusted text; except for broker registrations, RocketMQ's largest request has a hundredth of it
MAX_VALUES: Final = 16_384  # limit: values in untrusted text; a heartbeat with two thousand subscriptions
LENIENT_MAX_BYTES: Final = 64 << 10  # limit: of untrusted text that is not standard JSON
LENIENT_MAX_VALUES: Final = 8192  # limit: values in it; the parser below takes three microseconds per value


class ObjectKey(str):
    """The JSON text of an object that is the key of a map; written without quotes."""

    __slots__ = ()


def loads(data: bytes | bytearray | memoryview | str, *, untrusted: bool = False) -> Any:
    """Parses `data` by fastjson's rules. Raises RemoteProtocolError with the position of the error, or if the text is too large."""
    if isinstance(data, ObjectKey):
        data = str(data)  # msgspec accepts no other encoding
    if untrusted:
        check_size(data)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        if untrusted and len(data) > LENIENT_MAX_BYTES:
            raise RemoteProtocolError(
                f"JSON: {len(data)} bytes of non-standard JSON exceed the limit of {LENIENT_MAX_BYTES} bytes;"
                " put all names in double quotes"
            ) from None
        text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
        if not untrusted:
            try:
                return _unmarked(msgspec.json.decode(_with_quoted_keys(text)), _MAX_DEPTH)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                pass
        return _Parser(text, LENIENT_MAX_VALUES if untrusted else sys.maxsize).parse()


def check_size(data: bytes | bytearray | memoryview | str) -> None:
    """Raises RemoteProtocolError for text that would take too long to read."""
    if len(data) > MAX_BYTES:
        raise RemoteProtocolError(f"JSON: {len(data)} bytes exceed the limit of {MAX_BYTES} bytes")
    # Each value except the first of a list or object follows a comma. Commas within strings are counted, too: the limit need not be exact.
    values = count_values(data)
    if values > MAX_VALUES:
        raise RemoteProtocolError(
            f"JSON: about {values} values exceed the limit of {MAX_VALUES}; send them in several requests"
        )


def count_values(data: bytes | bytearray | memoryview | str) -> int:
    """A quick upper estimate of the number of values."""
    if isinstance(data, str):
        return 1 + data.count(",") + data.count("{") + data.count("[")
    text = bytes(data)
    return 1 + text.count(b",") + text.count(b"{") + text.count(b"[")


def dumps(value: Any) -> str:
    """Returns compact text, as on the wire. Keys keep the order of the mappings."""
    out: list[str] = []
    _write(value, out.append)
    return "".join(out)


def dumps_pretty(value: Any) -> str:
    """Returns text as in RocketMQ's configuration files: indented by TABs, without a newline at the end.

    Maps with integer keys are on one line except for the closing brace, lists of numbers and strings entirely on one line (store spec 1.6).
    """
    out: list[str] = []
    _write_pretty(value, out.append, "\n")
    return "".join(out)


def dumps_standard(value: Any) -> str:
    """Returns compact standard JSON, as name servers send it to clients that request it.

    All keys are in quotes and sorted, characters beyond ASCII are escaped, and so is the slash.
    """
    out: list[str] = []
    _write_standard(value, out.append)
    return "".join(out)


# ---- writing ----

_ESCAPED: Final = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_SHORT_ESCAPES: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def _escape(match: "re.Match[str]") -> str:
    character = match.group()
    return _SHORT_ESCAPES.get(character) or ("?" if "\ud800" <= character <= "\udfff" else f"\\u{ord(character):04X}")


def quote(text: str) -> str:
    """The text as a JSON string. Non-ASCII characters stay as they are, and so does the slash."""
    # Printable text needs no escapes except for these two characters. Nearly all text is printable, and the check is cheap.
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _number(value: float) -> str:
    """Java's format of a double: `0.0`, `1.0E7`, `1.0E-4`. Infinity and NaN become null."""
    if not math.isfinite(value):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else f"{Decimal(repr(value)):f}"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{int(exponent) + len(text) - 1}"


def _scalar(value: Any) -> str | None:
    """The text of a scalar; None for maps and lists."""
    kind = type(value)  # of nearly all values exactly one of these: an answer may have a million
    if kind is int:
        return str(value)
    if kind is str:
        return quote(value)
    if kind is dict:
        return None
    if isinstance(value, Enum):
        return quote(value.name)
    if isinstance(value, str):
        return quote(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    return None


def key_text(key: Any) -> str:
    """The text of a key."""
    kind = type(key)
    if kind is str:
        return quote(key)
    if kind is ObjectKey:
        return str(key)
    if isinstance(key, str):
        return quote(key)
    if isinstance(key, int):
        return str(key)
    raise TypeError(f"not a key: {key!r}")


def _write(value: Any, write: Any) -> None:
    text = _scalar(value)
    if text is not None:
        write(text)
    elif isinstance(value, Mapping):
        separator = "{"
        for key, item in value.items():
            if item is not None:
                write(f"{separator}{key_text(key)}:")
                _write(item, write)
                separator = ","
        write("{}" if separator == "{" else "}")
    elif isinstance(value, (list, tuple, set, frozenset)):
        separator = "["
        for item in value:
            write(separator)
            _write(item, write)
            separator = ","
        write("[]" if separator == "[" else "]")
    else:
        raise TypeError(f"not JSON serializable: {value!r}")


# All but some of ASCII: sets of other characters take milliseconds to compile, which every start would wait for.
_ESCAPED_STANDARD: Final = re.compile(r"[^ !#-.0-\[\]-~]")


def _escape_standard(match: "re.Match[str]") -> str:
    character = match.group()
    return "\\/" if character == "/" else _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def _quote_standard(text: str) -> str:
    units = (
        text if text.isascii() else "".join(map(chr, memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]))
    )
    return f'"{_ESCAPED_STANDARD.sub(_escape_standard, units)}"'


def _write_standard(value: Any, write: Any) -> None:
    if isinstance(value, Mapping):
        separator = "{"
        for key, item in sorted(value.items()):
            if item is not None:
                write(f"{separator}{_quote_standard(str(key))}:")
                _write_standard(item, write)
                separator = ","
        write("{}" if separator == "{" else "}")
    elif isinstance(value, (list, tuple)):
        separator = "["
        for item in value:
            write(separator)
            _write_standard(item, write)
            separator = ","
        write("[]" if separator == "[" else "]")
    elif isinstance(value, str):
        write(_quote_standard(value.name if isinstance(value, Enum) else value))
    else:
        _write(value, write)


def _write_pretty(value: Any, write: Any, newline: str) -> None:
    """`newline` is the line break with the indentation of the line on which the value began."""
    text = _scalar(value)
    if text is not None:
        write(text)
        return
    inner = newline + "\t"
    if isinstance(value, Mapping):
        separator = "{"
        for key, item in value.items():
            if item is not None:
                # compat: fastjson breaks the line only before keys that are strings.
                bare = isinstance(key, ObjectKey) or not isinstance(key, str)
                write(f"{separator}{'' if bare else inner}{key_text(key)}:")
                _write_pretty(item, write, inner)
                separator = ","
        write("{}" if separator == "{" else f"{newline}}}")
    elif isinstance(value, (list, tuple)) and any(isinstance(item, (Mapping, list, tuple)) for item in value):
        separator = "["
        for item in value:
            write(f"{separator}{inner}")
            _write_pretty(item, write, inner)
            separator = ","
        write(f"{newline}]")
    else:
        _write(value, write)


# ---- reading ----

_BLANK: Final = re.compile(r"[\s\ufeff]*")
_PLAIN: Final = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# Begins with a letter, _, $ or what is not ASCII (as `_ESCAPED_STANDARD`, quick to compile).
_NAME: Final = re.compile(r"[^\x00-#%-@\[-\^`{-\x7f][\w$]*")
_UNESCAPED: Final = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "F": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "0": "\0", "1": "\1", "2": "\2", "3": "\3", "4": "\4", "5": "\5", "6": "\6", "7": "\7",
}  # fmt: skip
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "undefined": None, "NaN": None}
_SURROGATES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_MAX_DEPTH: Final = 200  # limit: RocketMQ's deepest body has eight levels; Python's recursion limit is a thousand
_MAX_DIGITS: Final = 400  # limit: doubles have at most 309 digits before the point; longer numbers only cost time


def _join_surrogates(match: "re.Match[str]") -> str:
    text = match.group()
    # compat: Java accepts a lone surrogate and writes it as a question mark.
    return text.encode("utf-16", "surrogatepass").decode("utf-16") if len(text) == 2 else "?"


# Characters that stand in text of ASCII alone for: a string, a quotation mark within a key in quotes, the beginning of a key that had none.
_STRING, _QUOTE, _WHOLE_KEY, _OBJECT_KEY = "\xa1\xa2\xa3\xa4"
_BARE_KEY: Final = re.compile(
    rf'(?<=[{{,])(?:(-?(?:0|[1-9][0-9]{{0,17}}))|({{"{_STRING}":(?:"{_STRING}"|0|[1-9][0-9]*)(?:,"{_STRING}":(?:"{_STRING}"|0|[1-9][0-9]*))*}})):'
)
"""A key that is an integer, or an object as `dumps` writes it, of strings and integers."""


def _with_quoted_keys(text: str) -> str:
    """The text with marked keys in quotes in place of integers and objects. Text that may mean something else is returned as it is."""
    if not text.isascii() or not text.isprintable() or "\\" in text:
        return text
    pieces = text.split('"')
    strings = pieces[1::2]
    pieces[1::2] = [_STRING] * len(strings)
    outside = _BARE_KEY.sub(_quoted_key, '"'.join(pieces)).split(_STRING)
    whole = [""] * (2 * len(strings) + 1)
    whole[::2], whole[1::2] = outside, strings
    return "".join(whole)


def _quoted_key(match: "re.Match[str]") -> str:
    number, item = match.groups()
    return f'"{_WHOLE_KEY}{number}":' if item is None else f'"{_OBJECT_KEY}{item.replace(chr(34), _QUOTE)}":'


def _unmarked(value: Any, levels_left: int) -> Any:
    """The value with the keys that were marked. Raises RecursionError if it is nested deeper."""
    if type(value) not in _NESTED:
        return value
    if not levels_left:
        raise RecursionError
    left = levels_left - 1
    if type(value) is list:
        return [_unmarked(one, left) for one in value]
    return {
        key if key < _WHOLE_KEY else _unmarked_key(key): _unmarked(one, left) if type(one) in _NESTED else one
        for key, one in value.items()
    }


_NESTED: Final = (dict, list)


def _unmarked_key(key: str) -> str | int:
    return int(key[1:]) if key[0] == _WHOLE_KEY else ObjectKey(key[1:].replace(_QUOTE, '"'))


class _Parser:
    """A recursive descent parser, as tolerant as fastjson."""

    def __init__(self, text: str, max_values: int) -> None:
        self._text = text
        self._values_left = max_values
        self._at = 0
        self._depth = 0

    def parse(self) -> Any:
        value = self._value()
        if self._peek():
            raise self._error("unexpected data after the end")
        return value

    def _error(self, what: str) -> RemoteProtocolError:
        near = self._text[self._at : self._at + 20]
        return RemoteProtocolError(f"JSON: {what} at character {self._at}: {near!r}")

    def _peek(self) -> str:
        """The next character that is not blank, "" at the end."""
        match = _BLANK.match(self._text, self._at)
        assert match
        self._at = match.end()
        return self._text[self._at : self._at + 1]

    def _value(self) -> Any:
        self._values_left -= 1
        if self._values_left < 0:
            raise self._error(f"too many values: non-standard JSON is limited to {LENIENT_MAX_VALUES}")
        character = self._peek()
        if character == "{":
            return self._object()
        if character == "[":
            return self._list()
        if character in ('"', "'"):
            return self._string(character)
        if match := _NUMBER.match(self._text, self._at):
            self._at = match.end()
            return self._to_number(match.group())
        if (match := _NAME.match(self._text, self._at)) and match.group() in _WORDS:
            self._at = match.end()
            return _WORDS[match.group()]
        raise self._error("expected a value" if character else "unexpected end")

    def _to_number(self, text: str) -> int | float:
        if len(text) > _MAX_DIGITS:
            raise self._error("number too long")
        try:
            return int(text)
        except ValueError:
            return float(text)

    def _enter(self) -> None:
        self._depth += 1
        self._at += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"nested more than {_MAX_DEPTH} levels deep")

    def _object(self) -> dict[Any, Any]:
        self._enter()
        found: dict[Any, Any] = {}
        while (character := self._peek()) != "}":
            if character == ",":
                self._at += 1
                continue
            key = self._object_key(character)
            if self._peek() != ":":
                raise self._error("expected a colon")
            self._at += 1
            found[key] = self._value()
            if self._peek() not in (",", "}"):
                raise self._error("expected a comma or the end of an object")
        self._at += 1
        self._depth -= 1
        return found

    def _object_key(self, character: str) -> str | int:
        if character in ('"', "'"):
            return self._string(character)
        if character in ("{", "["):
            return ObjectKey(dumps(self._value()))
        if (match := _NUMBER.match(self._text, self._at)) or (match := _NAME.match(self._text, self._at)):
            self._at = match.end()
            text = match.group()
            if len(text) > _MAX_DIGITS:
                raise self._error("key too long")
            return int(text) if text.lstrip("+-").isdecimal() else text
        raise self._error("expected a key" if character else "unexpected end")

    def _list(self) -> list[Any]:
        self._enter()
        found: list[Any] = []
        while (character := self._peek()) != "]":
            if character == ",":
                self._at += 1
                continue
            found.append(self._value())
            if self._peek() not in (",", "]"):
                raise self._error("expected a comma or the end of a list")
        self._at += 1
        self._depth -= 1
        return found

    def _string(self, delimiter: str) -> str:
        text, plain = self._text, _PLAIN[delimiter]
        self._at += 1
        pieces: list[str] = []
        while True:
            match = plain.match(text, self._at)
            assert match
            pieces.append(match.group())
            self._at = match.end()
            if self._at >= len(text):
                raise self._error("unterminated string")
            if text[self._at] == delimiter:
                self._at += 1
                return _SURROGATES.sub(_join_surrogates, "".join(pieces))
            pieces.append(self._escaped())

    def _escaped(self) -> str:
        """The character after a backslash."""
        kind = self._text[self._at + 1 : self._at + 2]
        size = {"u": 4, "x": 2}.get(kind)
        if size is None:
            if kind not in _UNESCAPED:
                raise self._error("invalid escape sequence")
            self._at += 2
            return _UNESCAPED[kind]
        digits = self._text[self._at + 2 : self._at + 2 + size]
        if not re.fullmatch(rf"[0-9a-fA-F]{{{size}}}", digits):
            raise self._error("invalid escape sequence")
        self._at += 2 + size
        return chr(int(digits, 16))
