# The types of queue_entries.py.
cimport cython

from headrace.protocol.big_endian cimport address_of, load_i32, load_i64
from headrace.protocol.consume_queue_layout cimport (
    ENTRY_PHYSICAL_OFFSET_AT, ENTRY_RECORD_SIZE_AT, ENTRY_SIZE, ENTRY_TAGS_CODE_AT, FILLER_SIZE,
)

cdef class QueueEntries:
    cdef object _files
    cdef object _block
    cdef Py_ssize_t _length
    cdef const unsigned char *_data
    cdef bint _has_gone
    cdef long long _block_size, _block_at, _block_end, _file_size, _start
    cdef readonly long long first
    cdef readonly long long capacity_end
    cdef public long long end
    cdef public long long matched
    cdef readonly long long physical_offset
    cdef readonly int size
    cdef readonly long long tags_code

    @cython.locals(position=cython.longlong, at=cython.longlong)
    cpdef bint read(self, long long queue_offset) except -1

    @cython.locals(index=cython.longlong, file_end=cython.longlong, is_full=cython.bint)
    cdef bint _load(self, long long position) except -1

    @cython.locals(number=cython.longlong)
    cpdef long long find_end(self) except -1

    @cython.locals(number=cython.longlong, count=cython.longlong, is_there=cython.bint, is_filler=cython.bint)
    cpdef long long count_kept(self, long long min_offset) except -1
