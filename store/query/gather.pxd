# The types of gather.py.
cimport cython

from headrace.protocol.big_endian cimport address_of, load_i32, load_i64, prefetch, store_bytes, store_i32
from store.commit_log.record_check cimport check_record
from headrace.protocol.frame_layout cimport HEAD_SIZE, LENGTH_SIZE
from headrace.protocol.consume_queue_layout cimport ENTRY_PHYSICAL_OFFSET_AT, ENTRY_RECORD_SIZE_AT, ENTRY_SIZE, ENTRY_TAGS_CODE_AT, ENTRY_TAGS_HASH_AT, FILLER_SIZE

cdef int _FOUND, _GONE, _UNREADABLE, _PREFETCHED, _RANGE

ctypedef const unsigned char* _bytes_pointer

cdef class Gatherer:
    cdef object _file_for
    cdef object _view
    cdef _bytes_pointer _data
    cdef long long _file_start
    cdef long long _file_end
    cdef long long _file_size
    cdef list _files
    cdef long long[::1] _ranges
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
        object view,
        Py_ssize_t begin,
        Py_ssize_t end,
        set codes,
        long long max_count,
        long long wrote_offset,
        long long in_memory_from,
        long long memory_bytes,
        long long memory_count,
        long long disk_bytes,
        long long disk_count,
    )
    @cython.locals(start=cython.longlong)
    cdef void _prefetch(self, long long physical_offset, long long size) noexcept
    @cython.locals(start=cython.longlong, limit=cython.longlong, number=Py_ssize_t, grown='long long[::1]', ranges='long long[::1]')
    cdef int _find(self, long long physical_offset, long long size, long long wrote_offset) except -100
    cpdef bytes frame(self, bytes head)
    @cython.locals(
        head_length=Py_ssize_t, size=Py_ssize_t, copied=bytes, out='unsigned char *', text=_bytes_pointer, data=_bytes_pointer, ranges='long long[::1]',
        file=cython.longlong, number=Py_ssize_t,
    )
    cdef bytes _copy_after(self, bytes head, Py_ssize_t at)
