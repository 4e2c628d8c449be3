cimport cython

from headrace.protocol.big_endian cimport address_of, load_i32, load_i64
from store.index.layout cimport BEGIN_TIMESTAMP, END_TIMESTAMP, HEADER_SIZE, SLOT_SIZE
from store.index.layout cimport ENTRY_KEY_HASH_AT, ENTRY_PHYSICAL_OFFSET_AT, ENTRY_PREVIOUS_AT, ENTRY_SIZE, ENTRY_TIME_DIFF_AT

cdef long long _TIME_MAX

cdef class KeyChain:
    cdef object _view
    cdef const unsigned char *_data
    cdef Py_ssize_t _entries_at
    cdef long long _key_hash, _begin, _end, _number
    cdef readonly long long begin_timestamp

    @cython.locals(number=cython.longlong, previous=cython.longlong, at=Py_ssize_t, seconds=cython.longlong, timestamp=cython.longlong, offset=cython.longlong)
    cpdef long long next(self) except? -1
