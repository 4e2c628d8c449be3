# The types of gather.py.
cimport cython

from headrace.protocol.big_endian cimport address_of, copy_bytes, load_i32, load_i64
from store.commit_log.record_check cimport check_record
from headrace.protocol.frame_layout cimport HEAD_SIZE, LENGTH_SIZE
from headrace.protocol.consume_queue_layout cimport ENTRY_PHYSICAL_OFFSET_AT, ENTRY_RECORD_SIZE_AT, ENTRY_SIZE, ENTRY_TAGS_CODE_AT, ENTRY_TAGS_HASH_AT, FILLER_SIZE

cdef int _HEAD_ROOM, _LARGEST_HEAD, _COPIED, _GONE, _UNREADABLE

ctypedef const unsigned char* _bytes_pointer

cdef class Gatherer:
    cdef object _file_for
    cdef object _view
    cdef _bytes_pointer _data
    cdef long long _file_start
    cdef long long _file_end
    cdef long long _file_size
    cdef unsigned char[::1] _out
    cdef readonly Py_ssize_t length
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t examined
    cdef readonly long long last_physical_offset
    cdef readonly bint removing
    cdef readonly list unreadable

    @cython.locals(
        entries=_bytes_pointer,
        at=Py_ssize_t,
        entries_end=Py_ssize_t,
        physical_offset=cython.longlong,
        size=cython.longlong,
        tags_code=cython.longlong,
        next_file=cython.longlong,
        count_limit=cython.longlong,
        bytes_limit=cython.longlong,
        outcome=int,
    )
    cpdef gather(
        self,
        object entries_view,
        set codes,
        long long max_count,
        long long wrote_offset,
        long long in_memory_from,
        long long memory_bytes,
        long long memory_count,
        long long disk_bytes,
        long long disk_count,
    )
    @cython.locals(at=Py_ssize_t, start=Py_ssize_t, limit=cython.longlong, grown='unsigned char[::1]', data=_bytes_pointer, out='unsigned char[::1]')
    cdef int _copy(self, long long physical_offset, long long size, long long wrote_offset) except -100
    @cython.locals(head_length=Py_ssize_t, start=Py_ssize_t, out='unsigned char[::1]', length=cython.longlong, place=cython.int)
    cpdef bytes frame(self, bytes head)
