cimport cython

from headrace.protocol.big_endian cimport address_of, copy_bytes, is_equal, load_i32, load_i64
from headrace.protocol.consume_queue_layout cimport ENTRY_PHYSICAL_OFFSET_AT, ENTRY_RECORD_SIZE_AT, ENTRY_SIZE
from headrace.protocol.record_layout cimport (
    BODY_CRC_AT, BODY_CRC_MASK, FLAG_AT, INNER_BATCH, QUEUE_ID_AT, QUEUE_OFFSET_AT, TOTAL_SIZE_AT, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK,
    WHOLE, RecordParts, find_parts, read_record,
)

cdef int _WRONG_CRC

@cython.locals(data="const unsigned char *", parts=RecordParts, crc=cython.longlong)
cpdef int check_record(object view, long long position, long long limit, long long physical_offset, bint check_crc) except -100

@cython.locals(data="const unsigned char *", parts=RecordParts)
cpdef bytes queue_key_at(object view, long long position)

@cython.locals(
    cells="const unsigned char *", data="const unsigned char *", queue="const unsigned char *", parts=RecordParts, topic_length=Py_ssize_t,
    limit=cython.longlong, last=Py_ssize_t, at=Py_ssize_t, count=cython.longlong, physical_offset=cython.longlong, position=cython.longlong,
)
cpdef long long count_agreeing(object entries, long long queue_offset, object view, long long file_start, long long end, bytes key) except -1

@cython.locals(records=cython.longlong, last=cython.longlong, size=int, key=bytes)
cpdef tuple walk_known(object view, long long position, long long limit, long long file_start, bint check_crc, set known)

@cython.locals(last=cython.longlong, size=int)
cpdef tuple walk_records(object view, long long position, long long limit, long long file_start)
