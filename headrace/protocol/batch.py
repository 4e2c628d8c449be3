"""The body of a batch send: messages one after another, in a shorter form than a record (remoting spec 4.6).

    4  size of the entry = 22 + b + p
    4  magic, 0
    4  body CRC, 0: the broker reckons it
    4  flag
    4  b, then the body
    2  p, then the property string

Topic, queue and all else are in the request's header, once for all. Readers go by the two lengths and do not look at size, magic and CRC.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.model.message import Message
from headrace.model.properties import decode_properties, encode_properties

ENTRY_OVERHEAD: Final = 22

_HEAD: Final = Struct(">iiiii")
_I16: Final = Struct(">h")


class BatchEntry(NamedTuple):
    """One message of a batch, its properties as they came."""

    flag: int
    body: bytes
    properties_raw: bytes

    @property
    def properties(self) -> dict[str, str]:
        """What the property string holds."""
        return decode_properties(str(self.properties_raw, "utf-8", "replace"))


def encode_entry(body: bytes, flag: int, properties: bytes) -> bytes:
    """One message of a batch. Raises LocalProtocolError if its properties do not fit."""
    length = len(body)
    size = ENTRY_OVERHEAD + length + len(properties)
    try:
        return b"".join((_HEAD.pack(size, 0, 0, flag, length), body, _I16.pack(len(properties)), properties))
    except struct_error:
        raise LocalProtocolError(f"a message of {size} bytes does not fit a batch") from None


def encode_batch(messages: Iterable[Message]) -> bytes:
    """The body of a batch of these messages. Raises LocalProtocolError if one's properties do not fit."""
    return b"".join([
        encode_entry(message.body, message.flag, encode_properties(message.properties).encode())
        for message in messages
    ])  # fmt: skip


def decode_batch(body: bytes | bytearray | memoryview) -> list[BatchEntry]:
    """The messages in a batch's body. Raises RemoteProtocolError."""
    entries, at, end = [], 0, len(body)
    try:
        while at < end:
            _, _, _, flag, length = _HEAD.unpack_from(body, at)
            at += _HEAD.size
            if not 0 <= length <= end - at:
                raise RemoteProtocolError(f"batch: a body of {length} bytes where {end - at} are left")
            message_body = bytes(body[at : at + length])
            at += length
            (length,) = _I16.unpack_from(body, at)
            at += 2
            if not 0 <= length <= end - at:
                raise RemoteProtocolError(f"batch: properties of {length} bytes where {end - at} are left")
            entries.append(BatchEntry(flag, message_body, bytes(body[at : at + length])))
            at += length
    except struct_error:
        raise RemoteProtocolError("batch: it ends too early") from None
    return entries
