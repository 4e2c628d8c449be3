"""Java's properties text, in which brokers and name servers send and take their configuration: `key=value` lines.

It is also the form of `broker.conf`. Lines that begin with `#` or `!` say nothing; a backslash at the end joins the next line; the first `=`, `:` or
blank that no backslash protects ends the key.
"""

import re
from collections.abc import Mapping

from headrace.errors import RemoteProtocolError

_JOINED = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*")
_LINE = re.compile(r"[ \t\f]*((?:\\.|[^\\ \t\f=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_UNESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def encode_properties_text(properties: Mapping[str, object]) -> str:
    """One `key=value` a line. Nothing is escaped: RocketMQ's own writer does not, either."""
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def decode_properties_text(data: bytes | str) -> dict[str, str]:
    """The properties in a text; a later line of the same key counts. Raises RemoteProtocolError for an escape that is none."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    properties: dict[str, str] = {}
    lines = re.split(r"\r\n|\r|\n", _JOINED.sub("", text))
    for line in lines:
        stripped = line.lstrip(" \t\f")
        if not stripped or stripped[0] in "#!":
            continue
        match = _LINE.fullmatch(stripped)
        if not match:
            raise RemoteProtocolError(f"no property: {line[:80]!r}")
        key, value = (_ESCAPE.sub(_unescape, part) for part in match.groups())
        properties[key] = value
    return properties


def _unescape(match: "re.Match[str]") -> str:
    kind = match.group(1)
    if len(kind) == 5:
        character = chr(int(kind[1:], 16))
        return "?" if "\ud800" <= character <= "\udfff" else character
    if kind == "u":
        raise RemoteProtocolError("a property with a \\u escape that is none")
    return _UNESCAPED.get(kind, kind)
