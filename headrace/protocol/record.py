"""Encodes and decodes records: messages as the CommitLog stores them, and byte for byte as a pull returns them.

The layout is in `record_layout`. This is the plain codec, for everything except hot paths, and the reference for tests of the
compiled code.
"""

import zlib
from struct import error as struct_error
from typing import Final, NamedTuple

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.model import sys_flag as sys_flags
from headrace.model.host import V6_SIZE, Host, decode_host, encode_host
from headrace.model.message import MessageExt
from headrace.model.properties import decode_properties
from headrace.protocol.big_endian import load_i32
from headrace.protocol.compression import decompress
from headrace.protocol.record_layout import (
    BLANK_MAGIC,
    BODY_CRC_AT,
    BODY_CRC_MASK,
    BORN_HOST_AT,
    END_FILE_MIN_BLANK_LENGTH,
    FIXED_V4,
    FRONT,
    HOSTLESS_SIZE,
    LENGTH,
    LENGTH_V1,
    MAX_PROPERTIES_LENGTH,
    MAX_TOPIC_LENGTH,
    MAX_TOPIC_LENGTH_V2,
    MESSAGE_MAGIC,
    MESSAGE_MAGIC_V2,
    PREFIX,
    STORE_TIMESTAMP_SIZE,
    SYS_FLAG_AT,
    TAIL,
    TAIL_BODY_LENGTH_AT,
    TAIL_SIZE,
    TIMESTAMP,
    host_size,
    store_timestamp_at,
)

_HOSTS_V6: Final = sys_flags.BORN_HOST_V6 | sys_flags.STORE_HOST_V6

Buffer = bytes | bytearray | memoryview


def body_crc(body: Buffer) -> int:
    """The CRC of a body as in records and registrations: 31 bits."""
    return zlib.crc32(body) & BODY_CRC_MASK


def record_size(
    body_length: int, topic_length: int, properties_length: int, sys_flag: int = 0, magic: int = MESSAGE_MAGIC
) -> int:
    """The size of a whole record, from its parts' lengths in bytes; negative lengths count as 0."""
    hosts = host_size(sys_flag & sys_flags.BORN_HOST_V6) + host_size(sys_flag & sys_flags.STORE_HOST_V6)
    version = 1 if magic == MESSAGE_MAGIC_V2 else 0
    return HOSTLESS_SIZE + hosts + version + max(0, body_length) + topic_length + max(0, properties_length)


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
    """Encodes a record.

    Hosts may be given as the bytes returned by `encode_host`. The IPv6 bits of sysFlag are set from them, and the CRC is computed unless
    it is given. Raises LocalProtocolError if a value is too large.
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
        raise LocalProtocolError(f"topic of {len(topic_bytes)} bytes exceeds the maximum of {longest}")
    if len(property_bytes) > MAX_PROPERTIES_LENGTH:
        raise LocalProtocolError(
            f"properties of {len(property_bytes)} bytes exceed the maximum of {MAX_PROPERTIES_LENGTH}"
        )
    size = record_size(len(body), len(topic_bytes), len(property_bytes), sys_flag, magic)
    if crc is None:
        crc = body_crc(body)
    try:
        return b"".join((
            FRONT.pack(
                size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp
            ),
            born,
            TIMESTAMP.pack(store_timestamp),
            store,
            TAIL.pack(reconsume_times, prepared_transaction_offset, len(body)),
            body,
            (LENGTH if magic == MESSAGE_MAGIC_V2 else LENGTH_V1).pack(len(topic_bytes)),
            topic_bytes,
            LENGTH.pack(len(property_bytes)),
            property_bytes,
        ))  # fmt: skip
    except struct_error as error:
        raise LocalProtocolError(f"a number does not fit in a record: {error}") from None


def encode_message(message: MessageExt, *, magic: int = MESSAGE_MAGIC) -> bytes:
    """Encodes a stored message unchanged, including its `properties_raw` and `body_crc`. Raises LocalProtocolError."""
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
    """The 8 bytes of the blank record that fills the last `length` bytes of a file; the rest is not written."""
    if length < END_FILE_MIN_BLANK_LENGTH:
        raise LocalProtocolError(f"blank record of {length} bytes is below the minimum of {END_FILE_MIN_BLANK_LENGTH}")
    return PREFIX.pack(length, BLANK_MAGIC)


def decode_record(buffer: Buffer, offset: int = 0, *, inflate: bool = False) -> MessageExt:
    """Decodes the record at `offset`. `inflate`: decompress the body and clear the compression bit.

    Raises RemoteProtocolError if the record is incomplete or its lengths do not match. The CRC is not checked; see `check_record`.
    """
    try:
        size, magic = PREFIX.unpack_from(buffer, offset)
        if magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2):
            raise RemoteProtocolError(f"no record at {offset}: magic {magic & 0xFFFFFFFF:#010x}")
        (
            _, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp, born, store_timestamp, store,
            reconsume_times, prepared_transaction_offset, body_length,
        ) = FIXED_V4.unpack_from(buffer, offset)  # fmt: skip
        at = offset + FIXED_V4.size
        if sys_flag & _HOSTS_V6:
            at = offset + BORN_HOST_AT
            length = host_size(sys_flag & sys_flags.BORN_HOST_V6)
            born = bytes(buffer[at : at + length])
            at += length
            (store_timestamp,) = TIMESTAMP.unpack_from(buffer, at)
            at += STORE_TIMESTAMP_SIZE
            length = host_size(sys_flag & sys_flags.STORE_HOST_V6)
            store = bytes(buffer[at : at + length])
            at += length
            reconsume_times, prepared_transaction_offset, body_length = TAIL.unpack_from(buffer, at)
            at += TAIL.size
        end = offset + size
        if end > len(buffer) or not 0 <= body_length <= end - at:
            raise RemoteProtocolError(f"the record at {offset} of {size} bytes is incomplete")
        body = bytes(buffer[at : at + body_length])
        at += body_length
        if magic == MESSAGE_MAGIC:
            (topic_length,) = LENGTH_V1.unpack_from(buffer, at)
            at += 1
        else:
            (topic_length,) = LENGTH.unpack_from(buffer, at)
            at += 2
        topic = str(buffer[at : at + topic_length], "utf-8", "replace")
        at += topic_length
        (properties_length,) = LENGTH.unpack_from(buffer, at)
        at += 2
        if topic_length < 0 or properties_length < 0 or at + properties_length != end:
            raise RemoteProtocolError(
                f"the lengths in the record at {offset} do not add up to its size of {size} bytes"
            )
    except struct_error:
        raise RemoteProtocolError(f"the record at {offset}: unexpected end of data") from None
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
    """Decodes a pull's body: a sequence of records, without a count. Raises RemoteProtocolError.

    Records after an invalid one cannot be found, because each contains only its own size; RocketMQ's clients drop them silently.
    """
    messages, at = [], 0
    while at < len(buffer):
        messages.append(decode_record(buffer, at, inflate=inflate))
        at += messages[-1].size_bytes
    return messages


class RecordCheck(NamedTuple):
    """What is stored at a position of the log.

    is_ok   size    meaning
    True    > 0     a record of that size
    True    0       a blank record: continue in the next file
    False   > 0     a record whose lengths do not add up to its total size, which is `size`
    False   -1      no record
    """

    is_ok: bool
    size: int

    @property
    def is_blank(self) -> bool:
        """Whether this is the end of the file's records."""
        return self.is_ok and self.size == 0


_NO_RECORD: Final = RecordCheck(is_ok=False, size=-1)


def check_record(buffer: Buffer, offset: int = 0, *, check_crc: bool = True) -> RecordCheck:
    """Checks whether there is a record at `offset`, like RocketMQ's recovery and reput (store spec 5, "Record check").

    Does not compare the record's physical offset with its position, because RocketMQ does not; callers do if necessary. Never raises.
    """
    try:
        size, magic = PREFIX.unpack_from(buffer, offset)
        if magic == BLANK_MAGIC:
            return RecordCheck(is_ok=True, size=0)
        if magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2):
            return _NO_RECORD
        crc = load_i32(buffer, offset + BODY_CRC_AT)
        sys_flag = load_i32(buffer, offset + SYS_FLAG_AT)
        store_host_at = offset + store_timestamp_at(sys_flag) + STORE_TIMESTAMP_SIZE
        tail_at = store_host_at + host_size(sys_flag & sys_flags.STORE_HOST_V6)
        body_length = load_i32(buffer, tail_at + TAIL_BODY_LENGTH_AT)
        at = tail_at + TAIL_SIZE
        if body_length > 0:
            if at + body_length > len(buffer):
                return _NO_RECORD
            if check_crc and body_crc(buffer[at : at + body_length]) != crc:
                return _NO_RECORD
            at += body_length
        if magic == MESSAGE_MAGIC:
            (topic_length,) = LENGTH_V1.unpack_from(buffer, at)
            at += 1
        else:
            (topic_length,) = LENGTH.unpack_from(buffer, at)
            at += 2
        if topic_length < 0:
            return _NO_RECORD
        (properties_length,) = LENGTH.unpack_from(buffer, at + topic_length)
        if at + topic_length + 2 + max(0, properties_length) > len(buffer):
            return _NO_RECORD
    except struct_error:
        return _NO_RECORD
    if record_size(body_length, topic_length, properties_length, sys_flag, magic) != size:
        return RecordCheck(is_ok=False, size=size) if size > 0 else _NO_RECORD
    return RecordCheck(is_ok=True, size=size)
