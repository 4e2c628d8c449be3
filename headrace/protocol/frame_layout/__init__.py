"""How a frame lies in a connection's bytes.

    offset  size  meaning
    0       4     L    = number of bytes after this field = 4 + H + B
    4       4     type = SerializeType in the high byte, H in the other three
    8       H     header, encoded as the type says
    8 + H   B     body; none and an empty one look the same

All integers are big-endian. Because L stays below 2**24, a frame begins with a zero byte: that is how a server tells it from a TLS handshake.

Compiled modules take the numbers from the `.pxd` beside this file; a test compares the two. A package is never compiled itself.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from headrace.protocol.language import LanguageCode

FRAME_MAX_LENGTH: Final = 16_777_216
"""The most bytes a frame may have, with its length field. Peers close the connection over a longer one."""

LENGTH_SIZE: Final = 4
HEAD_SIZE: Final = 8
HEADER_MAX_LENGTH: Final = 0xFFFFFF


class SerializeType(IntEnum):
    """How a frame's header is encoded."""

    JSON = 0
    ROCKETMQ = 1


class Header(NamedTuple):
    """What both encodings of a header hold. `language` is None where the peer's is not known, `opaque` where it sent none."""

    code: int
    language: LanguageCode | None
    version: int
    opaque: int | None
    flag: int
    remark: str | None
    ext_fields: dict[str, str] | None
