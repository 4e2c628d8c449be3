"""ReceivedMessage: a pulled message that is decoded on demand.

A pull returns up to 32 records. Splitting them (half a microsecond each) yields what the client itself needs: the queue offset, the size, the flags.
The rest is decoded at first access, in the accessing thread. The body, which most handlers want and many want alone, is read without the rest.

    slot not set yet ──► Python asks __getattr__ ──► decoded, slots set ──► from then on an ordinary attribute

Each message refers to the bytes of its own record only, not to the whole answer, so it may be kept for any time.
"""

from typing import Any, Final

from headrace.client.namespace import unwrap
from headrace.errors import RemoteProtocolError
from headrace.model import properties as names
from headrace.model import sys_flag as sys_flags
from headrace.model.message import MessageExt
from headrace.model.message_queue import MessageQueue
from headrace.model.names import is_retry_topic
from headrace.protocol.big_endian import load_i32
from headrace.protocol.record import decode_record
from headrace.protocol.record_layout import (
    FIXED_V4,
    HEAD,
    MESSAGE_MAGIC,
    MESSAGE_MAGIC_V2,
    RECORD_OVERHEAD,
    SYS_FLAG_AT,
    TAIL,
    TAIL_SIZE,
)

_BODY_AT: Final = FIXED_V4.size  # with both hosts IPv4
_TAIL_AT: Final = _BODY_AT - TAIL_SIZE
_PLAIN: Final = ~(sys_flags.BORN_HOST_V6 | sys_flags.STORE_HOST_V6 | sys_flags.COMPRESSED)


class Origin:
    """The origin that the messages of one pull share. `queue` is the broker's name of it, with the namespace."""

    __slots__ = ("is_retry", "max_offset", "min_offset", "namespace", "queue", "visible_queue")

    def __init__(self, queue: MessageQueue, min_offset: int, max_offset: int, namespace: str | None = None) -> None:
        self.queue = queue
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.namespace = namespace
        self.is_retry = is_retry_topic(queue.topic)
        self.visible_queue = (
            MessageQueue(unwrap(namespace, queue.topic), queue.broker_name, queue.queue_id) if namespace else queue
        )


class ReceivedMessage(MessageExt):
    """A received message: a MessageExt with these additions.

    `queue`              the queue that it was read from (of the group's retry topic, for a redelivery)
    `max_offset`         the end of that queue when it was read: `message.max_offset - message.queue_offset` is the lag, at least 1
    `transaction_id`     of a message that was sent in a transaction
    """

    __slots__ = ("origin", "record", "started_ms")

    origin: Origin
    started_ms: int
    """When it was last given to a handler, ms; 0 if not yet."""
    record: bytes
    """The whole record, as the broker stores it."""

    def __getattr__(self, name: str) -> Any:
        # Only called for attributes that are not set yet: the fields of the record.
        if name not in _LATER:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "body" and self._read_body():
            return self.body
        self._decode()
        return getattr(self, name)

    @property
    def queue(self) -> MessageQueue:
        """The queue that it was read from."""
        return self.origin.visible_queue

    @property
    def broker_name(self) -> str:
        """The name of the broker that it was read from."""
        return self.origin.queue.broker_name

    @property
    def max_offset(self) -> int:
        """The end of its queue when it was read."""
        return self.origin.max_offset

    @property
    def transaction_id(self) -> str | None:
        """The id of the transaction that it was sent in, None if there was none."""
        return self.unique_id if self.properties.get(names.TRANSACTION_PREPARED) == "true" else None

    def stored(self) -> MessageExt:
        """The message as the broker stores it, decoded anew: its body is not decompressed. Raises RemoteProtocolError."""
        return decode_record(self.record)

    def _read_body(self) -> bool:
        record = self.record
        if load_i32(record, SYS_FLAG_AT) & ~_PLAIN:
            return False
        _, _, length = TAIL.unpack_from(record, _TAIL_AT)
        if not 0 <= length <= len(record) - _BODY_AT:
            return False
        self.body = record[_BODY_AT : _BODY_AT + length]
        return True

    def _decode(self) -> None:
        origin = self.origin
        try:
            whole = decode_record(self.record, inflate=True)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(
                f"the message at offset {self.queue_offset} of {origin.queue} cannot be decoded: {error}"
            ) from error
        properties = whole.properties
        # compat: the Java client adds these properties, and programs use them.
        properties[names.MIN_OFFSET] = str(origin.min_offset)
        properties[names.MAX_OFFSET] = str(origin.max_offset)
        if self.started_ms:
            properties[names.CONSUME_START_TIME] = str(self.started_ms)
        if origin.is_retry:
            whole.topic = properties.get(names.RETRY_TOPIC, whole.topic)
        if origin.namespace:
            whole.topic = unwrap(origin.namespace, whole.topic)
        for name in _LATER:
            setattr(self, name, getattr(whole, name))


_AT_ONCE: Final = frozenset({"queue_offset", "sys_flag", "size_bytes"})
_LATER: Final = tuple(name for name in MessageExt.__slots__ if name not in _AT_ONCE)


def cut_records(data: bytes, origin: Origin) -> list[ReceivedMessage]:
    """Splits a pull's body into messages. Raises RemoteProtocolError if it does not consist of whole records."""
    messages: list[ReceivedMessage] = []
    append, unpack, create = messages.append, HEAD.unpack_from, ReceivedMessage.__new__
    at, length = 0, len(data)
    while at < length:
        if length - at < RECORD_OVERHEAD:
            raise RemoteProtocolError(f"a pull from {origin.queue} returned {length - at} bytes after the last record")
        size, magic, _, _, _, queue_offset, _, sys_flag = unpack(data, at)
        if size < RECORD_OVERHEAD or at + size > length or magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2):
            raise RemoteProtocolError(f"a pull from {origin.queue} returned an invalid record at byte {at} of {length}")
        message = create(ReceivedMessage)
        message.record = data[at : at + size]
        message.origin = origin
        message.started_ms = 0
        message.queue_offset = queue_offset
        message.sys_flag = sys_flag & ~sys_flags.COMPRESSED
        message.size_bytes = size
        append(message)
        at += size
    return messages
