"""Bodies of messages as text, JSON and hexadecimal digits."""

import json
from typing import Final

import msgspec

_SHOWN: Final = 64 << 10  # limit: bytes of a body on a page
_HEX_SHOWN: Final = 4 << 10
_PREVIEW: Final = 120
_LINE: Final = 16


class Body(msgspec.Struct, frozen=True):
    """A body as a page shows it."""

    size: int
    text: str | None
    """None: it is not text in UTF-8."""
    pretty: str | None
    """As indented JSON; None: it is not JSON."""
    hex: str
    is_cut: bool
    """Whether the text is only the beginning."""


def describe(body: bytes) -> Body:
    """The body in all forms, each cut to what a page can show."""
    text = _text(body)
    pretty = None
    if text is not None and text.lstrip()[:1] in {"{", "["} and len(body) <= _SHOWN:
        try:
            pretty = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
        except (ValueError, RecursionError):
            pretty = None
    return Body(
        len(body), None if text is None else text[:_SHOWN], pretty, hex_lines(body[:_HEX_SHOWN]), len(body) > _SHOWN
    )


def preview(body: bytes) -> str:
    """The beginning of a body in one line: text, or hexadecimal digits."""
    text = _text(body[: _PREVIEW * 4], is_cut=len(body) > _PREVIEW * 4)
    return " ".join(text.split())[:_PREVIEW] if text is not None else body[: _PREVIEW // 3].hex(" ")


def hex_lines(body: bytes) -> str:
    """Lines of an offset, sixteen bytes and their ASCII characters."""
    lines = []
    for begin in range(0, len(body), _LINE):
        part = body[begin : begin + _LINE]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{begin:08x}  {part.hex(' '):<{_LINE * 3 - 1}}  {shown}")
    return "\n".join(lines)


def _text(body: bytes, *, is_cut: bool = False) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        # A cut may have split the last character.
        if not is_cut or error.start < len(body) - 3:
            return None
        text = body[: error.start].decode()
    return text if all(one.isprintable() or one in "\r\n\t" for one in text) else None
