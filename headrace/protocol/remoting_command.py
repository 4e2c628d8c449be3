"""RemotingCommand: a request or response, independent of its header's encoding.

A connection is symmetric: both peers send requests and match responses by `opaque`, which is unique only per sender. Bit 0 of `flag`
marks a response.
"""

import itertools
from dataclasses import dataclass
from typing import Final

from headrace.errors import LocalProtocolError
from headrace.protocol.binary_header import encode_binary_header
from headrace.protocol.frame_layout import FRAME_MAX_LENGTH, HEAD_SIZE, HEADER_MAX_LENGTH, Header, SerializeType
from headrace.protocol.json_header import encode_json_header
from headrace.protocol.language import LanguageCode
from headrace.protocol.version import CURRENT_VERSION

__all__ = [
    "ONEWAY_FLAG",
    "RESPONSE_FLAG",
    "RemotingCommand",
    "SerializeType",
    "create_request",
    "next_opaque",
    "response_to",
]

RESPONSE_FLAG: Final = 0x1
ONEWAY_FLAG: Final = 0x2

_opaque: Final = itertools.count()


def next_opaque() -> int:
    """The next request id of this process, a 31-bit number."""
    return next(_opaque) & 0x7FFFFFFF


@dataclass(slots=True)
class RemotingCommand:
    """A command. `language` is None if unknown; `ext_fields` is None if there is no map, `{}` if it is empty."""

    code: int
    language: LanguageCode | None = LanguageCode.JAVA
    version: int = CURRENT_VERSION
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    ext_fields: dict[str, str] | None = None
    body: bytes = b""
    serialize_type: SerializeType = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        """Whether it is a response: `code` is then a response code."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        """Whether its sender expects no response."""
        return bool(self.flag & ONEWAY_FLAG)

    @property
    def ext(self) -> dict[str, str]:
        """The ext fields for reading; an empty map if there are none. Do not modify it."""
        return self.ext_fields or {}

    def mark_oneway(self) -> "RemotingCommand":
        """Marks the command as one-way; returns it."""
        self.flag |= ONEWAY_FLAG
        return self

    def encode_head(self) -> bytes:
        """Encodes the frame up to the body, for callers that write the body separately.

        Raises LocalProtocolError if the frame or a field would be too long.
        """
        header = Header(self.code, self.language, self.version, self.opaque, self.flag, self.remark, self.ext_fields)
        encode = encode_json_header if self.serialize_type == SerializeType.JSON else encode_binary_header
        encoded = encode(header)
        length = HEAD_SIZE + len(encoded) + len(self.body)
        if length > FRAME_MAX_LENGTH or len(encoded) > HEADER_MAX_LENGTH:
            raise LocalProtocolError(f"frame of {length} bytes exceeds the maximum of {FRAME_MAX_LENGTH}")
        return (length - 4 << 32 | self.serialize_type << 24 | len(encoded)).to_bytes(HEAD_SIZE, "big") + encoded

    def encode(self) -> bytes:
        """Encodes the whole frame. Raises LocalProtocolError as `encode_head` does."""
        return self.encode_head() + self.body


def create_request(
    code: int,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    language: LanguageCode = LanguageCode.PYTHON,
    serialize_type: SerializeType = SerializeType.JSON,
) -> RemotingCommand:
    """Creates a request with a new opaque."""
    return RemotingCommand(
        code, language=language, opaque=next_opaque(), ext_fields=ext, body=body, serialize_type=serialize_type
    )


def response_to(
    request: RemotingCommand,
    code: int,
    remark: str | None = None,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """Creates the response to a request, with its opaque and encoding."""
    return RemotingCommand(
        code,
        opaque=request.opaque,
        flag=RESPONSE_FLAG,
        remark=remark,
        ext_fields=ext,
        body=body,
        serialize_type=request.serialize_type,
    )
