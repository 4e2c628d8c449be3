"""A command's header in RocketMQ's compact binary form, type ROCKETMQ (remoting spec 1.4).

    2  code        only the low 16 bits
    1  language    number of LanguageCode
    2  version
    4  opaque
    4  flag
    4  R           length of remark, 0 = none
    R  remark      UTF-8
    4  E           length of all ext entries, 0 = none
    E  entries     2 length, key, 4 length, value; back to back

Entries may have any order, and the last one with a key is used: RocketMQ itself sends some twice. RocketMQ reads an empty value as
null; here it remains the empty string, which RocketMQ also signs (quirk "empty values of binary headers").
"""

from struct import Struct
from struct import error as struct_error
from typing import Final

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.protocol.frame_layout import Header
from headrace.protocol.language import LanguageCode

_MAX_ENTRIES: Final = 4096  # limit: RocketMQ's requests have at most some thirty

_HEAD: Final = Struct(">hbhiii")  # code, language, version, opaque, flag, R
_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
_LANGUAGES: Final = {int(language): language for language in LanguageCode}


def encode_binary_header(header: Header) -> bytes:
    """Encodes the header. Raises LocalProtocolError if a number or a key is too large."""
    remark = header.remark.encode("utf-8", "replace") if header.remark else b""
    language = LanguageCode.OTHER if header.language is None else header.language
    try:
        if not -0x8000 <= header.code <= 0x7FFF:
            raise LocalProtocolError(f"code {header.code:d} does not fit in a binary header")
        head = _HEAD.pack(header.code, language, header.version, header.opaque or 0, header.flag, len(remark))
        entries: list[bytes] = []
        for key, value in (header.ext_fields or {}).items():
            key_bytes, value_bytes = key.encode("utf-8", "replace"), value.encode("utf-8", "replace")
            entries += (_I16.pack(len(key_bytes)), key_bytes, _I32.pack(len(value_bytes)), value_bytes)
    except struct_error as error:
        raise LocalProtocolError(f"a number does not fit in a binary header: {error}") from None
    ext = b"".join(entries)
    return b"".join((head, remark, _I32.pack(len(ext)), ext))


def decode_binary_header(data: bytes | bytearray | memoryview) -> Header:
    """Decodes the header; `data` must contain nothing else. Raises RemoteProtocolError."""
    end = len(data)
    try:
        code, language, version, opaque, flag, remark_length = _HEAD.unpack_from(data)
        at = _HEAD.size
        remark = None
        if remark_length:
            remark = _text(data, at, remark_length, end, "remark")
            at += remark_length
        (ext_length,) = _I32.unpack_from(data, at)
        at += 4
        ext: dict[str, str] | None = None
        if ext_length:
            if not 0 < ext_length <= end - at:
                raise RemoteProtocolError(
                    f"binary header: ext entries: invalid length {ext_length}, {end - at} bytes remain"
                )
            ext_end = at + ext_length
            ext = {}
            entries = 0
            while at < ext_end:
                (length,) = _I16.unpack_from(data, at)
                at += 2
                key = _text(data, at, length, ext_end, "key")
                at += length
                (length,) = _I32.unpack_from(data, at)
                at += 4
                ext[key] = _text(data, at, length, ext_end, "value")
                at += length
                entries += 1
                if entries > _MAX_ENTRIES:
                    raise RemoteProtocolError(f"binary header: more than {_MAX_ENTRIES} ext entries")
    except struct_error:
        raise RemoteProtocolError("binary header: unexpected end of data") from None
    return Header(code, _LANGUAGES.get(language), version, opaque, flag, remark, ext)


def _text(data: bytes | bytearray | memoryview, at: int, length: int, end: int, what: str) -> str:
    if not 0 <= length <= end - at:
        raise RemoteProtocolError(f"binary header: {what}: invalid length {length}, {end - at} bytes remain")
    return str(data[at : at + length], "utf-8", "replace")
