"""A command's header as JSON, RocketMQ's default (remoting spec 1.3).

    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":5,"remark":"…","serializeTypeCurrentRPC":"JSON","version":409}

Keys are written in this order, without those that are None. They are read in any order, and unknown ones are ignored. Headers that msgspec rejects
(numbers in quotes, ext values that are numbers, names without quotes) are read again by a slower parser that accepts what fastjson accepts.
"""

from typing import Annotated, Any, Final

import msgspec

from headrace.errors import RemoteProtocolError
from headrace.protocol import fastjson
from headrace.protocol.frame_layout import Header
from headrace.protocol.language import LanguageCode

_I32 = Annotated[int, msgspec.Meta(ge=-0x80000000, le=0x7FFFFFFF)]


class _JsonHeader(msgspec.Struct, gc=False):
    code: _I32 = 0
    extFields: dict[str, str] | None = None  # noqa: N815 (the name on the wire)
    flag: _I32 = 0
    language: str = "JAVA"
    opaque: _I32 | None = None
    remark: str | None = None
    version: _I32 = 0


_decode: Final = msgspec.json.Decoder(_JsonHeader).decode
_LANGUAGES: Final = dict(LanguageCode.__members__)


def encode_json_header(header: Header) -> bytes:
    """The header's bytes."""
    out = [f'{{"code":{header.code:d}']
    if header.ext_fields is not None:
        pairs = ",".join(
            [f"{fastjson.quote(key)}:{fastjson.quote(value)}" for key, value in header.ext_fields.items()],
        )
        out.append(f',"extFields":{{{pairs}}}')
    out.append(f',"flag":{header.flag:d}')
    if header.language is not None:
        out.append(f',"language":"{header.language.name}"')
    if header.opaque is not None:
        out.append(f',"opaque":{header.opaque:d}')
    if header.remark is not None:
        out.append(f',"remark":{fastjson.quote(header.remark)}')
    out.append(f',"serializeTypeCurrentRPC":"JSON","version":{header.version:d}}}')
    return "".join(out).encode()


def decode_json_header(data: bytes | bytearray | memoryview) -> Header:
    """Decodes the header. Raises RemoteProtocolError."""
    try:
        found = _decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _decode_tolerantly(data)
    return Header(
        found.code,
        _LANGUAGES.get(found.language),
        found.version,
        found.opaque,
        found.flag,
        found.remark,
        found.extFields,
    )


def _decode_tolerantly(data: bytes | bytearray | memoryview) -> Header:
    found = fastjson.loads(data, untrusted=True)
    if not isinstance(found, dict):
        raise RemoteProtocolError(f"a JSON header must be an object, not {type(found).__name__}")
    ext = found.get("extFields")
    if ext is not None and not isinstance(ext, dict):
        raise RemoteProtocolError(f"extFields must be an object, not {type(ext).__name__}")
    remark = found.get("remark")
    return Header(
        _integer(found, "code") or 0,
        _language(found.get("language", "JAVA")),
        _integer(found, "version") or 0,
        _integer(found, "opaque"),
        _integer(found, "flag") or 0,
        None if remark is None else _text(remark),
        None if ext is None else {str(key): _text(value) for key, value in ext.items() if value is not None},
    )


def _integer(found: dict[Any, Any], key: str) -> int | None:
    value = found.get(key)
    if isinstance(value, str):
        try:
            value = int(value) if value else None
        except ValueError:
            raise RemoteProtocolError(f"{key} is not a number: {found[key][:40]!r}") from None
    if value is None:
        return None
    if not isinstance(value, (int, float)) or not -0x80000000 <= value <= 0x7FFFFFFF:
        raise RemoteProtocolError(f"{key} is not a 32-bit integer: {fastjson.dumps(value)[:40]}")
    return int(value)


def _language(value: Any) -> LanguageCode | None:
    # compat: ordinals are accepted as well as names, and unknown names are not errors.
    if isinstance(value, int):
        return LanguageCode(value) if value in LanguageCode._value2member_map_ else None
    return _LANGUAGES.get(value) if isinstance(value, str) else None


def _text(value: Any) -> str:
    """Converts a value as Java does for its map of strings."""
    return value if isinstance(value, str) else fastjson.dumps(value)
