# cython: wraparound=False, cdivision=True
"""Whether bytes of the CommitLog are a record, and of which queue: what recovery and inspection ask of millions of places.

    0        4        8      12        20       28          36        48+B                 68+B+S   72+B+S
    totalSize magicCode bodyCRC … queueOffset physicalOffset sysFlag … storeTimestamp … bodyLength body topic properties

    B, S = 8, or 20 where sysFlag says that the born or store host is IPv6 (store spec, 2.1)

Stricter than RocketMQ in one point: a record must say that it lies where it lies. Bytes of a file's former life are whole
records, only somewhere else. Compiled where there is a compiler (types in the `.pxd`), plain Python elsewhere.
"""

from typing import Final

import cython
from isal.isal_zlib import crc32

if cython.compiled:
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER  # its length costs no call
else:
    from headrace.protocol.big_endian import address_of, copy_bytes, load_i16, load_i32, load_i64

# What check_record answers instead of a record's size.
BLANK: Final = 0
NO_ROOM: Final = -1
NO_MAGIC: Final = -2
WRONG_PLACE: Final = -3
WRONG_LENGTHS: Final = -4
WRONG_CRC: Final = -5

REASONS: Final = {
    BLANK: "the blank record at the end of a file",
    NO_ROOM: "too few bytes are left in the file",
    NO_MAGIC: "no magic code",
    WRONG_PLACE: "the record says that it lies elsewhere",
    WRONG_LENGTHS: "its lengths do not add up to its total size",
    WRONG_CRC: "the body does not match its CRC",
}

_BLANK = BLANK
_NO_ROOM = NO_ROOM
_NO_MAGIC = NO_MAGIC
_WRONG_PLACE = WRONG_PLACE
_WRONG_LENGTHS = WRONG_LENGTHS
_WRONG_CRC = WRONG_CRC

_MESSAGE_MAGIC = -626843481
_MESSAGE_MAGIC_V2 = -626843477
_BLANK_MAGIC = -875286124
_SMALLEST_RECORD = 91
_SMALLEST_BLANK = 8
_BORN_HOST_V6 = 0x10
_STORE_HOST_V6 = 0x20
_INNER_BATCH = 0x80
_TRANSACTION = 0x0C
_PREPARED = 0x04
_ROLLED_BACK = 0x0C
_CRC_MASK = 0x7FFFFFFF


def check_record(view: memoryview, position: int, limit: int, physical_offset: int, check_crc: bool) -> int:
    """The size of the valid record at `position` of a file's view, or BLANK, or one of the negative reasons.

    Whoever expects a record of a size that was read from a file first sees that this size is positive.
    Nothing at or beyond `limit`, or outside the view, is looked at. Store spec, section 5, "Record check".
    """
    data = address_of(view)
    limit = min(limit, PyMemoryView_GET_BUFFER(view).len if cython.compiled else len(view))
    room = limit - position
    if position < 0 or room < _SMALLEST_BLANK:
        return _NO_ROOM
    magic = load_i32(data, position + 4)
    if magic not in (_MESSAGE_MAGIC, _MESSAGE_MAGIC_V2):
        return _BLANK if magic == _BLANK_MAGIC else _NO_MAGIC
    total = load_i32(data, position)
    if room < _SMALLEST_RECORD or total > room:
        return _NO_ROOM
    if load_i64(data, position + 28) != physical_offset:
        return _WRONG_PLACE
    sys_flag = load_i32(data, position + 36)
    body = position + 88 + _hosts_beyond_v4(sys_flag)
    if body + 3 > limit:
        return _WRONG_LENGTHS
    body_length = load_i32(data, body - 4)
    end = position + total
    # compat: a negative length of body or properties counts as none.
    topic = body + body_length if body_length > 0 else body
    if topic + 3 > end:
        return _WRONG_LENGTHS
    topic_length = load_i16(data, topic)
    properties = topic + 2
    if magic == _MESSAGE_MAGIC:
        topic_length >>= 8  # one byte, signed
        properties = topic + 1
    properties += topic_length
    if topic_length < 0 or properties + 2 > end:
        return _WRONG_LENGTHS
    properties_length = load_i16(data, properties)
    if properties + 2 + max(properties_length, 0) != end:
        return _WRONG_LENGTHS
    if check_crc and body_length > 0 and crc32(view[body:topic]) & _CRC_MASK != load_i32(data, position + 8):
        return _WRONG_CRC
    return total


def queue_key_at(view: memoryview, position: int) -> bytes | None:
    """The key of its queue (the bytes of the queue id, then the topic's) for the valid record at a position of a view.

    None if it has no entry in a ConsumeQueue: prepared and rolled-back messages, and RocketMQ 5's batches, which have queues
    of another kind.
    """
    data = address_of(view)
    sys_flag = load_i32(data, position + 36)
    if sys_flag & _TRANSACTION in (_PREPARED, _ROLLED_BACK) or sys_flag & _INNER_BATCH:
        return None
    topic = position + 88 + _hosts_beyond_v4(sys_flag)
    body_length = load_i32(data, topic - 4)
    if body_length > 0:
        topic += body_length
    length = load_i16(data, topic)
    magic = load_i32(data, position + 4)
    if magic == _MESSAGE_MAGIC:
        length >>= 8
        topic -= 1
    topic += 2
    return copy_bytes(data, position + 12, position + 16) + copy_bytes(data, topic, topic + length)


def store_timestamp_of(view: memoryview, position: int) -> int:
    """The store timestamp in ms of the record at a position of a view; the caller knows that there is one."""
    sys_flag = int.from_bytes(view[position + 36 : position + 40], "big")
    at = position + (68 if sys_flag & _BORN_HOST_V6 else 56)
    return int.from_bytes(view[at : at + 8], "big", signed=True)


def queue_key(topic: bytes, queue_id: int) -> bytes:
    """The key of a queue, as `queue_key_at` gives it."""
    return queue_id.to_bytes(4, "big", signed=True) + topic


def topic_of(key: bytes) -> bytes:
    """The topic of a queue's key."""
    return key[4:]


def _hosts_beyond_v4(sys_flag: int) -> int:
    """How much longer a record's two hosts are than with IPv4."""
    return (12 if sys_flag & _BORN_HOST_V6 else 0) + (12 if sys_flag & _STORE_HOST_V6 else 0)
