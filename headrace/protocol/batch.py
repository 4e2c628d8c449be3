"""The body of a batch send: a sequence of messages, in a shorter form than records, shown in `record_layout`.

Topic, queue and all other fields are in the request's header, once for all messages.
"""

from collections.abc import Iterable
from struct import error as struct_error
from typing import NamedTuple

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.model.message import Message
from headrace.model.properties import decode_properties, encode_properties
from headrace.protocol.record_layout import BATCH_ENTRY_OVERHEAD, BATCH_HEAD, LENGTH


class BatchEntry(NamedTuple):
    """One message of a batch, with its properties as received."""

    flag: int
    body: bytes
    properties_raw: bytes

    @property
    def properties(self) -> dict[str, str]:
        """The decoded property string."""
        return decode_properties(str(self.properties_raw, "utf-8", "replace"))


def encode_entry(body: bytes, flag: int, properties: bytes) -> bytes:
    """Encodes one message of a batch. Raises LocalProtocolError if its properties are too long."""
    length = len(body)
    size = BATCH_ENTRY_OVERHEAD + length + len(properties)
    try:
        return b"".join((BATCH_HEAD.pack(size, 0, 0, flag, length), body, LENGTH.pack(len(properties)), properties))
    except struct_error:
        raise LocalProtocolError(f"a message of {size} bytes does not fit in a batch") from None


def encode_batch(messages: Iterable[Message]) -> bytes:
    """Encodes the body of a batch. Raises LocalProtocolError if a message's properties are too long."""
    return b"".join([
        encode_entry(message.body, message.flag, encode_properties(message.properties).encode())
        for message in messages
    ])  # fmt: skip


def decode_batch(body: bytes | bytearray | memoryview) -> list[BatchEntry]:
    """Decodes the messages in a batch's body. Raises RemoteProtocolError."""
    entries, at, end = [], 0, len(body)
    try:
        while at < end:
            _, _, _, flag, length = BATCH_HEAD.unpack_from(body, at)
            at += BATCH_HEAD.size
            if not 0 <= length <= end - at:
                raise RemoteProtocolError(f"batch: body: invalid length {length}, {end - at} bytes remain")
            message_body = bytes(body[at : at + length])
            at += length
            (length,) = LENGTH.unpack_from(body, at)
            at += 2
            if not 0 <= length <= end - at:
                raise RemoteProtocolError(f"batch: properties: invalid length {length}, {end - at} bytes remain")
            entries.append(BatchEntry(flag, message_body, bytes(body[at : at + length])))
            at += length
    except struct_error:
        raise RemoteProtocolError("batch: unexpected end of data") from None
    return entries
