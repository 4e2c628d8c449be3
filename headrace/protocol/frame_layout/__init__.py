"""The layout of a frame.

    offset  size  meaning
    0       4     L    = number of bytes after this field = 4 + H + B
    4       4     type = SerializeType in the high byte, H in the other three
    8       H     header, encoded as the type says
    8 + H   B     body; a missing and an empty one are the same

All integers are big-endian. L is below 2**24, so a frame begins with a zero byte, which distinguishes it from a TLS handshake.

Compiled modules use the numbers in the `.pxd` beside this file; a test compares the two. Packages are not compiled.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from headrace.protocol.language import LanguageCode

FRAME_MAX_LENGTH: Final = 16_777_216
"""The maximum size of a frame, including its length field. Peers close the connection if it is exceeded."""

LENGTH_SIZE: Final = 4
HEAD_SIZE: Final = 8
HEADER_MAX_LENGTH: Final = 0xFFFFFF


class SerializeType(IntEnum):
    """How a frame's header is encoded."""

    JSON = 0
    ROCKETMQ = 1


class Header(NamedTuple):
    """The fields of both encodings of a header. `language` is None if unknown, `opaque` if none was sent."""

    code: int
    language: LanguageCode | None
    version: int
    opaque: int | None
    flag: int
    remark: str | None
    ext_fields: dict[str, str] | None
