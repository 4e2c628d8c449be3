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
    from headrace.protocol.big_endian import address_of, copy_bytes, is_equal, load_i32, load_i64
    from headrace.protocol.consume_queue_layout import ENTRY_PHYSICAL_OFFSET_AT, ENTRY_RECORD_SIZE_AT, ENTRY_SIZE
    from headrace.protocol.record_layout import (
        BODY_CRC_AT,
        BODY_CRC_MASK,
        FLAG_AT,
        QUEUE_ID_AT,
        QUEUE_OFFSET_AT,
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


def walk_known(
    view: memoryview, position: int, limit: int, file_start: int, check_crc: bool, known: set[bytes]
) -> tuple[int, int, int, int]:
    """Walks over records of the file `view`, which begins at physical offset `file_start`, while their queues are `known` or they have none.

    Returns the position where it stopped; the result of `check_record` there: a size if that record's queue is not known; the number of records before; and
    the position of the last of them, -1 without one.
    """
    records = 0
    last = -1
    while True:
        size = check_record(view, position, limit, file_start + position, check_crc)
        if size <= 0:
            break
        key = queue_key_at(view, position)
        if key is not None and key not in known:
            break
        records += 1
        last = position
        position += size
    return position, size, records, last


def walk_records(view: memoryview, position: int, limit: int, file_start: int) -> tuple[int, int]:
    """Walks over records of the file `view`, which begins at physical offset `file_start`; bodies are not checked.

    Returns the position where there is no whole record, and that of the last record before it, -1 without one.
    """
    last = -1
    while True:
        size = check_record(view, position, limit, file_start + position, check_crc=False)
        if size <= 0:
            return position, last
        last = position
        position += size


def count_agreeing(
    entries: memoryview, queue_offset: int, view: memoryview, file_start: int, end: int, key: bytes
) -> int:
    """How many of these ConsumeQueue entries agree with their records, up to the first that does not, or whose record is in another file.

    The first entry is that of `queue_offset` in the queue with this key. `view` has the log file that begins at physical offset `file_start`; the
    log ends at `end`. A record that names further queues agrees with the entry in its own queue only.
    """
    cells = address_of(entries)
    data = address_of(view)
    key_view = memoryview(key)
    queue = address_of(key_view)
    topic_length = len(key) - 4
    limit = min(end - file_start, PyMemoryView_GET_BUFFER(view).len if cython.compiled else len(view))
    last = (PyMemoryView_GET_BUFFER(entries).len if cython.compiled else len(entries)) - ENTRY_SIZE
    at = 0
    count = 0
    while at <= last:
        physical_offset = load_i64(cells, at + ENTRY_PHYSICAL_OFFSET_AT)
        if physical_offset < file_start or physical_offset - file_start >= limit:
            break
        position = physical_offset - file_start
        parts = read_record(data, position, limit, physical_offset)
        if (
            parts.outcome != WHOLE
            or parts.size != load_i32(cells, at + ENTRY_RECORD_SIZE_AT)
            or load_i64(data, position + QUEUE_OFFSET_AT) != queue_offset + count
            or load_i32(data, position + QUEUE_ID_AT) != load_i32(queue, 0)
            or parts.topic_length != topic_length
            or not is_equal(data, parts.topic_at, queue, 4, topic_length)
            or parts.sys_flag & INNER_BATCH
            or parts.sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED
            or parts.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
        ):
            break
        at += ENTRY_SIZE
        count += 1
    return count


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
