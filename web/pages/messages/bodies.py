"""Bodies of messages as text, JSON and hexadecimal digits.

Anybody who may send a message chooses its body, and few compressed bytes may stand for many: only what is shown is decompressed.
"""

import json
from typing import Final

import msgspec

from headrace import MessageExt
from headrace.model import sys_flag as sys_flags
from headrace.protocol.compression import decompress_beginning

MOST_OF_ONE: Final = 1 << 20  # limit: decompressed bytes of a message that is shown alone
MOST_DOWNLOADED: Final = (
    32 << 20
)  # limit: memory; brokers store at most 4 MiB, and few compressed bytes may stand for many
_SHOWN: Final = 64 << 10  # limit: bytes of a body on a page
_HEX_SHOWN: Final = 4 << 10
_PRETTY_SHOWN: Final = 256 << 10  # limit: indented JSON can be many times as long as the body
_PREVIEW: Final = 120
MOST_OF_PREVIEW: Final = _PREVIEW * 4
_LINE: Final = 16


class Body(msgspec.Struct, frozen=True):
    """A body as a page shows it."""

    size: int
    """Bytes, without compression."""
    is_longer: bool
    """Whether `size` is where decompression stopped, and the body is longer."""
    text: str | None
    """None: it is not text in UTF-8."""
    pretty: str | None
    """As indented JSON; None: it is not JSON."""
    hex: str
    is_cut: bool
    """Whether the text is only the beginning."""
    shown: int
    """Bytes of the body in `text`."""


def body_of(stored: MessageExt, most: int) -> tuple[bytes, bool]:
    """At most the first `most` bytes of the body of a message as it is stored, decompressed, and whether they are all of it.

    Raises RemoteProtocolError.
    """
    if stored.sys_flag & sys_flags.COMPRESSED:
        return decompress_beginning(stored.body, stored.sys_flag, most)
    return stored.body[:most], len(stored.body) <= most


def describe(body: bytes, *, is_whole: bool = True) -> Body:
    """The body in all forms, each cut to what a page can show. `is_whole`: `body` is not only its beginning."""
    is_cut = len(body) > _SHOWN or not is_whole
    text = _text(body[:_SHOWN], is_cut=is_cut)
    pretty = None if is_cut or text is None or text.lstrip()[:1] not in {"{", "["} else _indented(text)
    return Body(len(body), not is_whole, text, pretty, hex_lines(body[:_HEX_SHOWN]), is_cut, min(len(body), _SHOWN))


def preview(body: bytes) -> str:
    """The beginning of a body in one line: text, or hexadecimal digits. A longer body may be cut to `MOST_OF_PREVIEW` bytes before."""
    text = _text(body[:MOST_OF_PREVIEW], is_cut=len(body) >= MOST_OF_PREVIEW)
    return " ".join(text.split())[:_PREVIEW] if text is not None else body[: _PREVIEW // 3].hex(" ")


def hex_lines(body: bytes) -> str:
    """Lines of an offset, sixteen bytes and their ASCII characters."""
    lines = []
    for begin in range(0, len(body), _LINE):
        part = body[begin : begin + _LINE]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{begin:08x}  {part.hex(' '):<{_LINE * 3 - 1}}  {shown}")
    return "\n".join(lines)


def _indented(text: str) -> str | None:
    """The JSON indented; None if it is not JSON, or too long when it is indented."""
    pieces, length = [], 0
    try:
        for piece in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(json.loads(text)):
            pieces.append(piece)
            length += len(piece)
            if length > _PRETTY_SHOWN:
                return None
    except (ValueError, RecursionError):
        return None
    return "".join(pieces)


def _text(body: bytes, *, is_cut: bool = False) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        # A cut may have split the last character.
        if not is_cut or error.start < len(body) - 3:
            return None
        text = body[: error.start].decode()
    return text if all(one.isprintable() or one in "\r\n\t" for one in text) else None
