"""The layout of a record, and its only reader: a message as the CommitLog stores it and a pull returns it (store spec 2.1).

    at    size  field
     0    4     total size, this field included
     4    4     magic: MESSAGE_MAGIC, or MESSAGE_MAGIC_V2 with a topic length of two bytes
     8    4     body CRC: CRC-32 of the stored body without its highest bit; 0 for an empty body
    12    4     queue id
    16    4     flag, the application's own
    20    8     queue offset; 0 for prepared and rolled-back messages
    28    8     physical offset: where this record is stored
    36    4     sysFlag
    40    8     born timestamp, ms
    48    B     born host: address and 4 bytes of port; B = 8, or 20 if sysFlag has BORN_HOST_V6
          8     store timestamp, ms
          S     store host, as above by STORE_HOST_V6
          4     reconsume times                     ┐
          8     prepared transaction offset         ├ the tail of the fixed part
          4     body length b                       ┘
          b     body
          1     topic length t (2 bytes in version 2)
          t     topic, UTF-8
          2     properties length p
          p     properties: name 0x01 value 0x02 name 0x01 value [0x02]

Integers are big-endian and signed. A negative length of body or properties counts as 0; a negative length of the topic is an error.

A blank record fills the rest of a file that is too small for the next record: its total size extends to the end of the file, its magic is
BLANK_MAGIC, and the bytes after that have no meaning.

In the body of a batch send a message has a shorter form (remoting spec 4.6). Readers use its two lengths and ignore size, magic and CRC:

     0    4     size of the entry, 22 + b + p
     4    4     magic, 0
     8    4     body CRC, 0: the broker computes it
    12    4     flag
    16    4     body length b
    20    b     body
          2     properties length p
          p     properties

No other module contains a number of this layout. Compiled modules use the C form in the `.pxd` beside this file, all others the names
below; a test compares the two. This is a package, because packages are not compiled: so compiled and interpreted modules can be mixed.
"""

from struct import Struct
from typing import Final

from headrace.model.host import V4_SIZE, V6_SIZE
from headrace.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from headrace.protocol.big_endian import Bytes, find_byte, load_i8, load_i16, load_i32, load_i64

MESSAGE_MAGIC: Final = 0xDAA320A7 - 0x100000000
MESSAGE_MAGIC_V2: Final = 0xDAA320AB - 0x100000000
BLANK_MAGIC: Final = 0xCBD43194 - 0x100000000
MAGIC_START: Final = MESSAGE_MAGIC.to_bytes(4, "big", signed=True)[:3]
"""The first bytes of the magic codes of both versions, for searches."""

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
STORE_TIMESTAMP_SIZE: Final = 8
PHYSICAL_OFFSET_END: Final = 36
"""The number of bytes up to and including the physical offset."""

TAIL_RECONSUME_TIMES_AT: Final = 0
TAIL_PREPARED_OFFSET_AT: Final = 4
TAIL_BODY_LENGTH_AT: Final = 12
TAIL_SIZE: Final = 16
"""The tail follows the store host; the positions above are relative to its first byte."""

LENGTHS_SIZE: Final = 3
"""Bytes of the lengths of topic and properties; 1 more in version 2."""
HOSTLESS_SIZE: Final = 75
"""Bytes of a record without hosts, body, topic and properties; 1 more in version 2."""
RECORD_OVERHEAD: Final = 91
"""Bytes of the smallest record: two IPv4 hosts, no body, topic and properties; 12 more for each IPv6 host, 1 more in version 2."""
END_FILE_MIN_BLANK_LENGTH: Final = 8
"""Bytes that stay free at the end of a file for the blank record: its total size and its magic."""

MAX_TOPIC_LENGTH: Final = 127
MAX_TOPIC_LENGTH_V2: Final = 255
MAX_PROPERTIES_LENGTH: Final = 32767
BODY_CRC_MASK: Final = 0x7FFFFFFF

NAME_END: Final = 1
"""The byte between a property's name and its value."""
VALUE_END: Final = 2
"""The byte between two properties."""

BATCH_FLAG_AT: Final = 12
BATCH_BODY_LENGTH_AT: Final = 16
BATCH_BODY_AT: Final = 20
BATCH_ENTRY_OVERHEAD: Final = 22
"""Bytes of a batch's message without its body and properties."""

PREFIX: Final = Struct(">ii")
"""Total size, magic: the meaningful part of a blank record."""
HEAD: Final = Struct(">iiiiiqqi")
"""Total size … sysFlag."""
OFFSETS: Final = Struct(">qq")
"""Queue offset, physical offset: at QUEUE_OFFSET_AT."""
FRONT: Final = Struct(">iiiiiqqiq")
"""Total size … born timestamp."""
TIMESTAMP: Final = Struct(">q")
TAIL: Final = Struct(">iqi")
"""Reconsume times, prepared transaction offset, body length."""
FIXED_V4: Final = Struct(">iiiiiqqiq8sq8siqi")
"""Everything before the body, if both hosts are IPv4."""
LENGTH_V1: Final = Struct(">b")
"""The topic's length in version 1."""
LENGTH: Final = Struct(">h")
"""The topic's length in version 2, and the properties' length."""
BATCH_HEAD: Final = Struct(">iiiii")
"""Size, magic, body CRC, flag, body length of a batch's message."""

WHOLE: Final = 1
BLANK_RECORD: Final = 0
NO_ROOM: Final = -1
NO_MAGIC: Final = -2
WRONG_PLACE: Final = -3
WRONG_LENGTHS: Final = -4

REASONS: Final = {
    BLANK_RECORD: "a blank record, which ends the file",
    NO_ROOM: "too few bytes are left for a record",
    NO_MAGIC: "no magic code",
    WRONG_PLACE: "the record contains a different physical offset",
    WRONG_LENGTHS: "the record's lengths do not add up to its total size",
}
"""Outcomes of `read_record` other than WHOLE, in words."""


class RecordParts:
    """The positions of a record's parts; a C struct for compiled callers. If the outcome is not WHOLE, only `size` and `magic` are valid.

    `outcome`: WHOLE, or why it is not a record. `store_timestamp_at`, `store_host_at`, `tail_at`, `body_at`, `topic_at`, `properties_at`: positions in
    the memory. Lengths are in bytes and not negative.
    """

    __slots__ = (
        "body_at",
        "body_length",
        "magic",
        "outcome",
        "properties_at",
        "properties_length",
        "size",
        "store_host_at",
        "store_timestamp_at",
        "sys_flag",
        "tail_at",
        "topic_at",
        "topic_length",
    )

    def __init__(self, outcome: int = NO_ROOM) -> None:
        self.outcome = outcome
        self.size = self.magic = self.sys_flag = 0
        self.store_timestamp_at = self.store_host_at = self.tail_at = 0
        self.body_at = self.body_length = self.topic_at = self.topic_length = self.properties_at = (
            self.properties_length
        ) = 0


class PropertyParts:
    """The position of a property; a C struct for compiled callers. `name_length` 0: it has no name or no value, and is ignored."""

    __slots__ = ("end", "name_length", "value_at")

    def __init__(self, name_length: int, value_at: int, end: int) -> None:
        self.name_length = name_length
        self.value_at = value_at
        self.end = end


def host_size(is_v6: int) -> int:
    """Bytes of a host; `is_v6`: its bit of sysFlag, or 0."""
    return V6_SIZE if is_v6 else V4_SIZE


def store_timestamp_at(sys_flag: int) -> int:
    """The position of the store timestamp in a record with this sysFlag."""
    return BORN_HOST_AT + host_size(sys_flag & BORN_HOST_V6)


def read_record(data: Bytes, at: int, end: int, physical_offset: int) -> RecordParts:
    """Reads the record at `at` of memory that ends at `end`, if it contains `physical_offset` as its physical offset.

    Each number is compared with the remaining bytes before it is used. The CRC is not checked.
    """
    parts = RecordParts()
    room = end - at
    if at < 0 or room < END_FILE_MIN_BLANK_LENGTH:
        return parts
    parts.size = load_i32(data, at + TOTAL_SIZE_AT)
    parts.magic = load_i32(data, at + MAGIC_AT)
    if parts.magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2):
        parts.outcome = BLANK_RECORD if parts.magic == BLANK_MAGIC else NO_MAGIC
        return parts
    if room < RECORD_OVERHEAD or parts.size > room:
        return parts
    if load_i64(data, at + PHYSICAL_OFFSET_AT) != physical_offset:
        parts.outcome = WRONG_PLACE
        return parts
    return find_parts(data, at, at + parts.size)


def find_parts(data: Bytes, at: int, end: int) -> RecordParts:
    """Reads the parts of the record that fills the memory from `at` to `end`: WHOLE or WRONG_LENGTHS. Magic and physical offset have been checked."""
    parts = RecordParts(WRONG_LENGTHS)
    parts.size = end - at
    if parts.size < RECORD_OVERHEAD:
        return parts
    parts.magic = load_i32(data, at + MAGIC_AT)
    parts.sys_flag = load_i32(data, at + SYS_FLAG_AT)
    parts.store_timestamp_at = at + BORN_HOST_AT + host_size(parts.sys_flag & BORN_HOST_V6)
    parts.store_host_at = parts.store_timestamp_at + STORE_TIMESTAMP_SIZE
    parts.tail_at = parts.store_host_at + host_size(parts.sys_flag & STORE_HOST_V6)
    parts.body_at = parts.tail_at + TAIL_SIZE
    if end - parts.body_at < LENGTHS_SIZE:
        return parts
    # compat: a negative length of body or properties counts as 0.
    parts.body_length = max(load_i32(data, parts.tail_at + TAIL_BODY_LENGTH_AT), 0)
    if parts.body_length > end - parts.body_at - LENGTHS_SIZE:
        return parts
    parts.topic_at = parts.body_at + parts.body_length
    if parts.magic == MESSAGE_MAGIC_V2:
        parts.topic_length = load_i16(data, parts.topic_at)
        parts.topic_at += 2
    else:
        parts.topic_length = load_i8(data, parts.topic_at)
        parts.topic_at += 1
    if not 0 <= parts.topic_length <= end - parts.topic_at - 2:
        return parts
    parts.properties_at = parts.topic_at + parts.topic_length + 2
    parts.properties_length = max(load_i16(data, parts.properties_at - 2), 0)
    if parts.properties_length == end - parts.properties_at:
        parts.outcome = WHOLE
    return parts


def read_property(data: Bytes, at: int, end: int) -> PropertyParts:
    """Reads the property at `at` of a property string that ends at `end`. The next one begins after `PropertyParts.end`.

    compat: a property without a name or without a value is ignored, and the last one with a name is used.
    """
    stop = find_byte(data, VALUE_END, at, end)
    if stop < 0:
        stop = end
    separator = find_byte(data, NAME_END, at, stop)
    if separator <= at or separator >= stop - 1:
        return PropertyParts(0, stop, stop)
    return PropertyParts(separator - at, separator + 1, stop)
