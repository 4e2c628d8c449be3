cimport cython

from headrace.protocol.big_endian cimport address_of, copy_bytes, load_i32
from headrace.protocol.record_layout cimport (
    BODY_CRC_AT, BODY_CRC_MASK, FLAG_AT, INNER_BATCH, QUEUE_ID_AT, TOTAL_SIZE_AT, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK,
    WHOLE, RecordParts, find_parts, read_record,
)

cdef int _WRONG_CRC

@cython.locals(data="const unsigned char *", parts=RecordParts, crc=cython.longlong)
cpdef int check_record(object view, long long position, long long limit, long long physical_offset, bint check_crc) except -100

@cython.locals(data="const unsigned char *", parts=RecordParts)
cpdef bytes queue_key_at(object view, long long position)
