"""The format of an IndexFile: a header, a table of slots, and entries chained by slot from the newest to the oldest.

    index/<yyyyMMddHHmmssSSS: local time of creation>

    0                        header, 40 bytes
    40                       slots x i32: number of the slot's newest entry, 0 = none
    40 + 4 * slots           entries x 20 bytes; number 0 is never used

    header  0                8              16               24             32              36
            +----------------+--------------+----------------+--------------+---------------+------------+
            | beginTimestamp | endTimestamp | beginPhyOffset | endPhyOffset | hashSlotCount | indexCount |
            +----------------+--------------+----------------+--------------+---------------+------------+

    entry   0         4                12            16         20
            +---------+----------------+-------------+----------+
            | keyHash | physicalOffset | timeDiff, s | previous |     all big-endian, signed
            +---------+----------------+-------------+----------+

`indexCount` is the number of the next entry; a stored 0 is read as 1. `hashSlotCount` counts slots in use. The numbers of
slots and entries are configured (`maxHashSlotNum`, `maxIndexNum`) and stand nowhere in the file: its length must agree.

The key is `topic#key`; keyHash is the absolute value of its Java hash code (0 for -2**31), the slot keyHash % slots.
`timeDiff` counts from beginTimestamp. In every file but the first the first entry's is counted from the *previous* file's
endTimestamp, which stands in the header until that entry is put.

Compiled modules take the numbers from the `.pxd` beside this file; a test compares the two. A package is never compiled itself.
"""

from struct import Struct
from typing import Final

HEADER: Final = Struct(">qqqqii")
"""Begin and end timestamp, begin and end physical offset, slots in use, number of the next entry."""
HEADER_SIZE: Final = 40
BEGIN_TIMESTAMP: Final = 0
END_TIMESTAMP: Final = 8
BEGIN_PHYSICAL_OFFSET: Final = 16
END_PHYSICAL_OFFSET: Final = 24
SLOT_COUNT: Final = 32

SLOT_SIZE: Final = 4
ENTRY: Final = Struct(">iqii")
"""Key hash, physical offset, seconds since begin, number of the slot's entry before this."""
ENTRY_SIZE: Final = 20
ENTRY_KEY_HASH_AT: Final = 0
ENTRY_PHYSICAL_OFFSET_AT: Final = 4
ENTRY_TIME_DIFF_AT: Final = 12
ENTRY_PREVIOUS_AT: Final = 16
TIME_DIFF_MAX: Final = 2**31 - 1
NAME_DIGITS: Final = 17


def file_size(slots: int, entries: int) -> int:
    """Length in bytes of a file with that many slots and places for entries (number 0 among them)."""
    return HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * entries


def slot_position(slot: int) -> int:
    """Where in the file a slot stands."""
    return HEADER_SIZE + SLOT_SIZE * slot


def entry_position(slots: int, number: int) -> int:
    """Where in a file of that many slots the entry of that number stands."""
    return HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * number


def fold_hash(java_hash: int) -> int:
    """The hash that is stored: the absolute value, 0 where Java's int has none."""
    return 0 if java_hash == -(2**31) else abs(java_hash)
