# cython: wraparound=False, cdivision=True
"""Checks whether bytes of the CommitLog are a record, and of which queue: called by recovery and inspection for millions of records.

Stricter than RocketMQ in one point: a record must contain the physical offset at which it is stored. Bytes left over from earlier use of
a file are valid records with another offset. Compiled if there is a compiler (types in the `.pxd`), plain Python otherwise.
"""

from typing import Final

import cython
from isal.isal_zlib import crc32

from headrace.protocol import big_endian, record_layout

if cython.compiled:
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER  # a tuple, whose length costs no call
else:
    from headrace.model.sys_flag import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
    from headrace.protocol.big_endian import address_of, copy_bytes, load_i32
    from headrace.protocol.record_layout import (
        BODY_CRC_AT,
        BODY_CRC_MASK,
        FLAG_AT,
        QUEUE_ID_AT,
        TOTAL_SIZE_AT,
        WHOLE,
        find_parts,
        read_record,
    )

# Results of check_record that are not the size of a record.
BLANK: Final = record_layout.BLANK_RECORD
NO_ROOM: Final = record_layout.NO_ROOM
NO_MAGIC: Final = record_layout.NO_MAGIC
WRONG_PLACE: Final = record_layout.WRONG_PLACE
WRONG_LENGTHS: Final = record_layout.WRONG_LENGTHS
WRONG_CRC: Final = -5

REASONS: Final = {**record_layout.REASONS, WRONG_CRC: "the body does not match its CRC"}

_WRONG_CRC = WRONG_CRC


def check_record(view: memoryview, position: int, limit: int, physical_offset: int, check_crc: bool) -> int:
    """The size of the valid record at `position` in the view of a file, or BLANK, or one of the negative reasons.

    A caller that expects a record of a size that was read from a file first checks that this size is positive.
    Nothing at or beyond `limit`, or outside the view, is read. Store spec, section 5, "Record check".
    """
    data = address_of(view)
    limit = min(limit, PyMemoryView_GET_BUFFER(view).len if cython.compiled else len(view))
    parts = read_record(data, position, limit, physical_offset)
    if parts.outcome != WHOLE:
        return parts.outcome
    if check_crc and parts.body_length > 0:
        crc = crc32(view[parts.body_at : parts.body_at + parts.body_length]) & BODY_CRC_MASK
        if crc != load_i32(data, position + BODY_CRC_AT):
            return _WRONG_CRC
    return parts.size


def queue_key_at(view: memoryview, position: int) -> bytes | None:
    """The key of its queue (the bytes of the queue id, then the topic's) for the valid record at a position of a view.

    None if it has no entry in a ConsumeQueue: prepared and rolled-back messages, and RocketMQ 5's batches, which have another
    kind of queue.
    """
    data = address_of(view)
    parts = find_parts(data, position, position + load_i32(data, position + TOTAL_SIZE_AT))
    if parts.outcome != WHOLE or parts.sys_flag & INNER_BATCH:
        return None
    if parts.sys_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
        return None
    queue_id = copy_bytes(data, position + QUEUE_ID_AT, position + FLAG_AT)
    return queue_id + copy_bytes(data, parts.topic_at, parts.topic_at + parts.topic_length)


def queue_offset_of(view: memoryview, position: int) -> int:
    """The queue offset of the valid record at a position of a view."""
    return big_endian.load_i64(view, position + record_layout.QUEUE_OFFSET_AT)


def store_timestamp_of(view: memoryview, position: int) -> int:
    """The store timestamp in ms of the valid record at a position of a view."""
    sys_flag = big_endian.load_i32(view, position + record_layout.SYS_FLAG_AT)
    return big_endian.load_i64(view, position + record_layout.store_timestamp_at(sys_flag))


def queue_key(topic: bytes, queue_id: int) -> bytes:
    """The key of a queue, as `queue_key_at` gives it."""
    return queue_id.to_bytes(4, "big", signed=True) + topic


def topic_of(key: bytes) -> bytes:
    """The topic of a queue's key."""
    return key[4:]
