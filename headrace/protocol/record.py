"""The record: a message as the CommitLog keeps it, and byte for byte as a pull returns it (store spec 2.1).

    at  size   field
     0  4      total size, this field included
     4  4      magic: MESSAGE_MAGIC, or MESSAGE_MAGIC_V2 with a topic length of two bytes
     8  4      body CRC: CRC-32 of the body as stored, without its highest bit; 0 for an empty body
    12  4      queue id
    16  4      flag, the application's own
    20  8      queue offset (0 for prepared and rolled-back messages)
    28  8      physical offset: where this record lies
    36  4      sysFlag
    40  8      born timestamp, ms
    48  B      born host: address and 4 bytes of port; B = 8, or 20 if sysFlag has BORN_HOST_V6
        8      store timestamp, ms                       (at 56 with B = 8)
        S      store host, as above by STORE_HOST_V6     (at 64)
        4      reconsume times                           (at 72)
        8      prepared transaction offset               (at 76)
        4      body length b                             (at 84)
        b      body
        1      topic length t (2 bytes in version 2)
        t      topic, UTF-8
        2      properties length p
        p      property string, UTF-8

Integers are big-endian and signed. Where a file's rest is too small for the next record there lies a blank record: its total size reaches to the
end of the file, its magic is BLANK_MAGIC, and what follows means nothing.

This is the plain codec, for all that is not the hot path, and what the compiled one is measured against.
"""

import zlib
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.model import sys_flag as sys_flags
from headrace.model.host import V4_SIZE, V6_SIZE, Host, decode_host, encode_host
from headrace.model.message import MessageExt
from headrace.model.properties import decode_properties
from headrace.protocol.compression import decompress

MESSAGE_MAGIC: Final = 0xDAA320A7 - (1 << 32)
MESSAGE_MAGIC_V2: Final = 0xDAA320AB - (1 << 32)
BLANK_MAGIC: Final = 0xCBD43194 - (1 << 32)

RECORD_OVERHEAD: Final = 91
"""Bytes of a record without body, topic and properties; 12 more for each IPv6 host, 1 more in version 2."""

V6_EXTRA: Final = V6_SIZE - V4_SIZE
END_FILE_MIN_BLANK_LENGTH: Final = 8
"""So many bytes at least stay free at the end of a file for the blank record."""

MAX_TOPIC_LENGTH: Final = 127
MAX_TOPIC_LENGTH_V2: Final = 255
MAX_PROPERTIES_LENGTH: Final = 32767

TOTAL_SIZE_AT: Final = 0
MAGIC_AT: Final = 4
BODY_CRC_AT: Final = 8
QUEUE_ID_AT: Final = 12
FLAG_AT: Final = 16
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_TIMESTAMP_AT: Final = 40
BORN_HOST_AT: Final = 48
STORE_TIMESTAMP_AT: Final = 56
"""With an IPv4 born host; see store_timestamp_at."""

_FRONT: Final = Struct(">iiiiiqqiq")  # total size … born timestamp
_MIDDLE: Final = Struct(">iqi")  # reconsume times, prepared transaction offset, body length
_V4: Final = Struct(">iiiiiqqiq8sq8siqi")  # all up to the body, both hosts IPv4
_BLANK: Final = Struct(">ii")
_I64: Final = Struct(">q")
_I16: Final = Struct(">h")
_I8: Final = Struct(">b")

_HOSTS_V6: Final = sys_flags.BORN_HOST_V6 | sys_flags.STORE_HOST_V6

Buffer = bytes | bytearray | memoryview


def body_crc(body: Buffer) -> int:
    """The CRC of a body as records and registrations carry it: 31 bits."""
    return zlib.crc32(body) & 0x7FFFFFFF


def store_timestamp_at(sys_flag: int) -> int:
    """Where the store timestamp lies in a record with this sysFlag."""
    return STORE_TIMESTAMP_AT + (V6_EXTRA if sys_flag & sys_flags.BORN_HOST_V6 else 0)


def record_size(
    body_length: int, topic_length: int, properties_length: int, sys_flag: int = 0, magic: int = MESSAGE_MAGIC
) -> int:
    """The size of a whole record out of its parts' lengths in bytes; negative lengths count as none."""
    hosts = V6_EXTRA * (bool(sys_flag & sys_flags.BORN_HOST_V6) + bool(sys_flag & sys_flags.STORE_HOST_V6))
    version = 1 if magic == MESSAGE_MAGIC_V2 else 0
    return RECORD_OVERHEAD + hosts + version + max(0, body_length) + topic_length + max(0, properties_length)


def encode_record(
    *,
    topic: str | bytes,
    body: bytes,
    properties: str | bytes = b"",
    queue_id: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    sys_flag: int = 0,
    flag: int = 0,
    born_timestamp: int = 0,
    born_host: Host | bytes = ("0.0.0.0", 0),
    store_timestamp: int = 0,
    store_host: Host | bytes = ("0.0.0.0", 0),
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    crc: int | None = None,
    magic: int = MESSAGE_MAGIC,
) -> bytes:
    """The record's bytes.

    Hosts may be given as the bytes that `encode_host` makes. The bits of sysFlag that say IPv6 are set from them, and the CRC is reckoned unless
    it is given. Raises LocalProtocolError if something does not fit.
    """
    topic_bytes = topic if isinstance(topic, bytes) else topic.encode()
    property_bytes = properties if isinstance(properties, bytes) else properties.encode()
    born = born_host if isinstance(born_host, bytes) else encode_host(born_host)
    store = store_host if isinstance(store_host, bytes) else encode_host(store_host)
    sys_flag &= ~_HOSTS_V6
    if len(born) == V6_SIZE:
        sys_flag |= sys_flags.BORN_HOST_V6
    if len(store) == V6_SIZE:
        sys_flag |= sys_flags.STORE_HOST_V6
    longest = MAX_TOPIC_LENGTH_V2 if magic == MESSAGE_MAGIC_V2 else MAX_TOPIC_LENGTH
    if len(topic_bytes) > longest:
        raise LocalProtocolError(f"a topic of {len(topic_bytes)} bytes; the most is {longest}")
    if len(property_bytes) > MAX_PROPERTIES_LENGTH:
        raise LocalProtocolError(f"properties of {len(property_bytes)} bytes; the most is {MAX_PROPERTIES_LENGTH}")
    size = record_size(len(body), len(topic_bytes), len(property_bytes), sys_flag, magic)
    if crc is None:
        crc = body_crc(body)
    try:
        return b"".join((
            _FRONT.pack(
                size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp
            ),
            born,
            _I64.pack(store_timestamp),
            store,
            _MIDDLE.pack(reconsume_times, prepared_transaction_offset, len(body)),
            body,
            (_I16 if magic == MESSAGE_MAGIC_V2 else _I8).pack(len(topic_bytes)),
            topic_bytes,
            _I16.pack(len(property_bytes)),
            property_bytes,
        ))  # fmt: skip
    except struct_error as error:
        raise LocalProtocolError(f"a number does not fit a record: {error}") from None


def encode_message(message: MessageExt, *, magic: int = MESSAGE_MAGIC) -> bytes:
    """The record of a message as it is, its `properties_raw` and `body_crc` included. Raises LocalProtocolError."""
    return encode_record(
        topic=message.topic,
        body=message.body,
        properties=message.properties_raw,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        sys_flag=message.sys_flag,
        flag=message.flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_timestamp=message.store_timestamp,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
        crc=message.body_crc,
        magic=magic,
    )


def encode_blank(length: int) -> bytes:
    """The blank record that fills the last `length` bytes of a file: its 8 bytes; the rest is left as it is."""
    if length < END_FILE_MIN_BLANK_LENGTH:
        raise LocalProtocolError(f"a blank record of {length} bytes; the least is {END_FILE_MIN_BLANK_LENGTH}")
    return _BLANK.pack(length, BLANK_MAGIC)


def decode_record(buffer: Buffer, offset: int = 0, *, inflate: bool = False) -> MessageExt:
    """The message in the record at `offset`. `inflate` decompresses the body and clears the bit that says it was compressed.

    Raises RemoteProtocolError if there is no whole record with lengths that agree. The CRC is not checked: that is `check_record`.
    """
    try:
        size, magic = _BLANK.unpack_from(buffer, offset)
        if magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2):
            raise RemoteProtocolError(f"no record at {offset}: magic {magic & 0xFFFFFFFF:#010x}")
        (
            _, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp, born, store_timestamp, store,
            reconsume_times, prepared_transaction_offset, body_length,
        ) = _V4.unpack_from(buffer, offset)  # fmt: skip
        at = offset + _V4.size
        if sys_flag & _HOSTS_V6:
            at = offset + BORN_HOST_AT
            length = V6_SIZE if sys_flag & sys_flags.BORN_HOST_V6 else V4_SIZE
            born = bytes(buffer[at : at + length])
            at += length
            (store_timestamp,) = _I64.unpack_from(buffer, at)
            length = V6_SIZE if sys_flag & sys_flags.STORE_HOST_V6 else V4_SIZE
            store = bytes(buffer[at + 8 : at + 8 + length])
            at += 8 + length
            reconsume_times, prepared_transaction_offset, body_length = _MIDDLE.unpack_from(buffer, at)
            at += _MIDDLE.size
        end = offset + size
        if end > len(buffer) or not 0 <= body_length <= end - at:
            raise RemoteProtocolError(f"the record at {offset} of {size} bytes is not whole")
        body = bytes(buffer[at : at + body_length])
        at += body_length
        if magic == MESSAGE_MAGIC:
            (topic_length,) = _I8.unpack_from(buffer, at)
            at += 1
        else:
            (topic_length,) = _I16.unpack_from(buffer, at)
            at += 2
        topic = str(buffer[at : at + topic_length], "utf-8", "replace")
        at += topic_length
        (properties_length,) = _I16.unpack_from(buffer, at)
        at += 2
        if topic_length < 0 or properties_length < 0 or at + properties_length != end:
            raise RemoteProtocolError(f"the lengths in the record at {offset} do not make its {size} bytes")
    except struct_error:
        raise RemoteProtocolError(f"the record at {offset} ends too early") from None
    properties_raw = bytes(buffer[at:end])
    if inflate and sys_flag & sys_flags.COMPRESSED:
        body = decompress(body, sys_flag)
        sys_flag &= ~sys_flags.COMPRESSED
    return MessageExt(
        topic,
        queue_id,
        queue_offset,
        physical_offset,
        sys_flag,
        flag,
        body,
        crc,
        born_timestamp,
        decode_host(born),
        store_timestamp,
        decode_host(store),
        reconsume_times,
        prepared_transaction_offset,
        decode_properties(str(properties_raw, "utf-8", "replace")),
        properties_raw,
        size,
    )


def decode_records(buffer: Buffer, *, inflate: bool = False) -> list[MessageExt]:
    """The messages of a pull's body: records one after another, without a count. Raises RemoteProtocolError.

    A record says its own size, so what follows a bad one cannot be found; clients of RocketMQ drop it silently.
    """
    messages, at = [], 0
    while at < len(buffer):
        messages.append(decode_record(buffer, at, inflate=inflate))
        at += messages[-1].size_bytes
    return messages


class RecordCheck(NamedTuple):
    """What stands at a place of the log.

    is_ok   size    meaning
    True    > 0     a record of that size
    True    0       a blank record: go on in the next file
    False   > 0     a record whose lengths do not make its total size, which is `size`
    False   -1      no record
    """

    is_ok: bool
    size: int

    @property
    def is_blank(self) -> bool:
        """Whether the file's records end here."""
        return self.is_ok and self.size == 0


_NO_RECORD: Final = RecordCheck(is_ok=False, size=-1)


def check_record(buffer: Buffer, offset: int = 0, *, check_crc: bool = True) -> RecordCheck:
    """Whether a record stands at `offset`, as RocketMQ's recovery and reput decide it (store spec 5, "Record check").

    It does not compare the record's physical offset with its place, because the reference does not: a caller that must know does. Never raises.
    """
    try:
        size, magic = _BLANK.unpack_from(buffer, offset)
        if magic == BLANK_MAGIC:
            return RecordCheck(is_ok=True, size=0)
        if magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2):
            return _NO_RECORD
        crc = int.from_bytes(buffer[offset + BODY_CRC_AT : offset + BODY_CRC_AT + 4], "big", signed=True)
        sys_flag = int.from_bytes(buffer[offset + SYS_FLAG_AT : offset + SYS_FLAG_AT + 4], "big")
        at = offset + _V4.size
        if sys_flag & sys_flags.BORN_HOST_V6:
            at += V6_EXTRA
        if sys_flag & sys_flags.STORE_HOST_V6:
            at += V6_EXTRA
        body_length = int.from_bytes(buffer[at - 4 : at], "big", signed=True)
        if body_length > 0:
            if at + body_length > len(buffer):
                return _NO_RECORD
            if check_crc and body_crc(buffer[at : at + body_length]) != crc:
                return _NO_RECORD
            at += body_length
        if magic == MESSAGE_MAGIC:
            (topic_length,) = _I8.unpack_from(buffer, at)
            at += 1
        else:
            (topic_length,) = _I16.unpack_from(buffer, at)
            at += 2
        if topic_length < 0:
            return _NO_RECORD
        (properties_length,) = _I16.unpack_from(buffer, at + topic_length)
        if at + topic_length + 2 + max(0, properties_length) > len(buffer):
            return _NO_RECORD
    except struct_error:
        return _NO_RECORD
    if record_size(body_length, topic_length, properties_length, sys_flag, magic) != size:
        return RecordCheck(is_ok=False, size=size) if size > 0 else _NO_RECORD
    return RecordCheck(is_ok=True, size=size)
