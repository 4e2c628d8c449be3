cimport cython

from headrace.protocol.big_endian cimport address_of, load_i32, prefetch, store_i32, store_i64
from store.index.layout cimport BEGIN_PHYSICAL_OFFSET, BEGIN_TIMESTAMP, END_PHYSICAL_OFFSET, END_TIMESTAMP, HEADER_SIZE, SLOT_COUNT, SLOT_SIZE, TIME_DIFF_MAX
from store.index.layout cimport ENTRY_KEY_HASH_AT, ENTRY_PHYSICAL_OFFSET_AT, ENTRY_PREVIOUS_AT, ENTRY_SIZE, ENTRY_TIME_DIFF_AT

cdef enum:
    COLLECTED_MAX = 16

cdef class IndexCursor:
    cdef readonly object file
    cdef readonly long long slots
    cdef readonly long long capacity
    cdef readonly long long count
    cdef readonly long long slots_used
    cdef readonly long long begin_timestamp
    cdef readonly long long end_timestamp
    cdef readonly long long end_physical_offset
    cdef object _view
    cdef unsigned char *_data
    cdef bint _stops
    cdef int _collected
    cdef int[COLLECTED_MAX] _hashes
    cdef long long[COLLECTED_MAX] _offsets
    cdef long long[COLLECTED_MAX] _timestamps

    @cython.locals(slot_at=Py_ssize_t, number=int)
    cpdef put(self, int key_hash, long long physical_offset, long long store_timestamp)
    @cython.locals(collected=int, first=cython.longlong, number=int)
    cpdef settle(self)
    @cython.locals(slot_at=Py_ssize_t, at=Py_ssize_t, previous=cython.longlong, seconds=cython.longlong)
    cdef _write(self, long long number, int key_hash, long long physical_offset, long long store_timestamp)
    cdef _write_header(self, long long count, long long physical_offset, long long store_timestamp)
