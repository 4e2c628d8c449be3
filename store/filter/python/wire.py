"""The protocol between the broker and a filter worker, over a Unix stream socket.

    broker → worker   length (4 bytes) kind (1 byte) rest
        L   the function's source in UTF-8; once, first
        M   whole records as they are stored, one after another

    worker → broker   length (4 bytes) kind (1 byte) rest
        L   empty: the function is there;  or what is wrong with it
        M   a byte for each record (NO, YES, FAILED), then what went wrong first, if anything

The worker runs foreign code and may say anything: the broker believes no length, count or text that it has not checked.
"""

import struct
from typing import Final

HEAD: Final = struct.Struct(">IB")
LOAD: Final = ord("L")
MATCH: Final = ord("M")

NO: Final = 0
YES: Final = 1
FAILED: Final = 2

REASON_MAX: Final = 500
"""Bytes of text about a failure."""


def frame(kind: int, rest: bytes) -> bytes:
    """One message."""
    return HEAD.pack(len(rest), kind) + rest
