r"""Java's properties format, in which brokers and name servers send, accept and store their configuration.

A line has a key, a separator (`=`, `:` or blanks) and a value. `#` and `!` begin a comment line, a backslash at the end
joins the next line without its leading blanks, `\t \n \r \f \uXXXX` are escapes, and a backslash before any other
character stands for that character. The last line with a key is used.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.errors import RemoteProtocolError

REQUEST_LIMIT: Final = 64 << 10
"""Maximum size of a text in a request, in bytes; RocketMQ's whole configuration has ten thousand."""

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def encode_properties_text(properties: Mapping[str, object]) -> str:
    """Returns one `key=value` per line. Nothing is escaped, as in RocketMQ."""
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def decode_properties_text(data: bytes | str) -> dict[str, str]:
    r"""Returns the properties in a text, in their order. Raises RemoteProtocolError, with the line number, for a `\u` without its digits."""
    if isinstance(data, bytes) and len(data) > REQUEST_LIMIT:
        raise RemoteProtocolError(f"configuration of {len(data)} bytes exceeds the limit of {REQUEST_LIMIT} bytes")
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key_end = _key_end(line)
        value_start = key_end
        while value_start < len(line) and line[value_start] in _BLANKS:
            value_start += 1
        if value_start < len(line) and line[value_start] in "=:":
            value_start += 1
            while value_start < len(line) and line[value_start] in _BLANKS:
                value_start += 1
        found[_unescape(line[:key_end], number)] = _unescape(line[value_start:], number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    at = 0
    while at < len(lines):
        first = at
        line = lines[at].lstrip(_BLANKS)
        at += 1
        if not line or line[0] in "#!":
            continue
        pieces = []
        while _ends_in_odd_backslashes(line):
            pieces.append(line[:-1])
            line = ""
            if at == len(lines):
                break
            line = lines[at].lstrip(_BLANKS)
            at += 1
        yield first + 1, "".join((*pieces, line))


def _ends_in_odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _key_end(line: str) -> int:
    at = 0
    while at < len(line):
        if line[at] == "\\":
            at += 2
            continue
        if line[at] in "=:" or line[at] in _BLANKS:
            return at
        at += 1
    return len(line)


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character != "\\" or at == len(text):
            out.append(character)
            continue
        character = text[at]
        at += 1
        if character == "u":
            digits = text[at : at + 4]
            if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise RemoteProtocolError(f"line {line_number}: \\u is followed by {digits!r}, not by four hex digits")
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(character, character))
    # Java writes a character beyond 16 bits as two escapes. They are combined here; half of a pair becomes `?`.
    joined = "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return joined.encode("utf-8", "replace").decode()
