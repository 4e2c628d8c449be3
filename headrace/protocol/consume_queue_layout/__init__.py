"""The format of ConsumeQueue files: one 20-byte entry per message, in the order of queue offsets.

    consumequeue/<topic>/<queue id>/<20 digits: byte offset of the file's first entry>

    byte  0        8      12              20
          +--------+------+----------------+
          | phy    | size | tagsCode       |     all big-endian, signed
          +--------+------+----------------+

The entry of queue offset `q` is at byte `q * 20` of the queue's concatenated files. An entry is valid if its physical
offset is not negative and its size is positive. New files contain zeros, so the first entry of size 0 ends the queue.

`tagsCode` is Java's String.hashCode of the TAGS property, 0 without tags. In SCHEDULE_TOPIC_XXXX it is the delivery time.
With `enableConsumeQueueExt` it is the address of a unit in `consumequeue_ext/<topic>/<queue id>/`:

    byte  0      2          10               18           20
          +------+----------+----------------+------------+---------+
          | size | tagsCode | storeTimestamp | bitMapSize | bitmap |     size = 20 + bitMapSize
          +------+----------+----------------+------------+---------+

    address = -2**63 + byte offset of the unit; a file's last unit is followed by the size -1

A queue whose first files are missing begins with fillers: entries of physical offset 0 and size 2**31 - 1.

Batch queues of RocketMQ 5 (`batchconsumequeue/`, 46 bytes per entry) are only dumped and verified.

Only `store.consume_queue` writes entries (`cursor`, and `writer` what is unusual). Readers unpack the three fields with `ENTRY`; compiled readers
are `store.filter.entry_selector` and `store.query.gather`.

Compiled modules use the numbers in the `.pxd` beside this file; a test compares the two. Packages are not compiled.
"""

from struct import Struct
from typing import Final

ENTRY_SIZE: Final = 20
ENTRY: Final = Struct(">qiq")
"""Physical offset, record size, tags code."""
ENTRY_PHYSICAL_OFFSET_AT: Final = 0
ENTRY_RECORD_SIZE_AT: Final = 8
ENTRY_TAGS_CODE_AT: Final = 12
ENTRY_TAGS_HASH_AT: Final = 16
"""The low half of the tags code: the hash, if it is one."""

QUEUE_OFFSET_MAX: Final = 2**58
"""The highest valid queue offset: its position in bytes must fit 64 bits."""

FILLER_SIZE: Final = 0x7FFFFFFF
FILLER: Final = ENTRY.pack(0, FILLER_SIZE, 0)

EXT_UNIT_HEAD: Final = Struct(">hqqh")
"""Size of the unit, tags code, store timestamp, size of the bitmap."""
EXT_UNIT_HEAD_SIZE: Final = 20
EXT_UNIT_SIZE_MAX: Final = 32767
EXT_END_OF_FILE: Final = -1
EXT_END_SIZE: Final = 4
"""Bytes that a unit must leave free in its file for the end mark."""
EXT_ADDRESS_BASE: Final = -(2**63)
EXT_ADDRESS_MAX: Final = -(2**31) - 1
"""The highest value of a tags code that is an address: a hash code cannot be as low."""

BATCH_ENTRY_SIZE: Final = 46
BATCH_ENTRY: Final = Struct(">qiqqqhii")
"""Physical offset, size, tags code, store timestamp, base queue offset, batch size, compacted offset, reserved."""


def is_ext_address(tags_code: int) -> bool:
    """Whether the third field of an entry is the address of a unit."""
    return tags_code <= EXT_ADDRESS_MAX
