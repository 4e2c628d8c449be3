cimport cython

from headrace.protocol.big_endian cimport address_of, copy_bytes, load_i16, load_i32, load_i64

cdef int _MESSAGE_MAGIC, _MESSAGE_MAGIC_V2, _BLANK_MAGIC
cdef int _SMALLEST_RECORD, _SMALLEST_BLANK
cdef int _BORN_HOST_V6, _STORE_HOST_V6, _TRANSACTION, _PREPARED, _ROLLED_BACK, _INNER_BATCH
cdef int _BLANK, _NO_ROOM, _NO_MAGIC, _WRONG_PLACE, _WRONG_LENGTHS, _WRONG_CRC

@cython.locals(
    data="const unsigned char *", room=cython.longlong, total=int, magic=int, sys_flag=int, body_length=int,
    body=cython.longlong, topic=cython.longlong, properties=cython.longlong, end=cython.longlong,
    topic_length=int, properties_length=int,
)
cpdef int check_record(object view, long long position, long long limit, long long physical_offset, bint check_crc) except -100

@cython.locals(data="const unsigned char *", magic=int, sys_flag=int, topic=cython.longlong, body_length=int, length=int)
cpdef bytes queue_key_at(object view, long long position)

cdef int _hosts_beyond_v4(int sys_flag)
