# The types of key_entries.py.
cimport cython

from headrace.protocol.big_endian cimport address_of, load_i32, load_i64, store_i32
from store.index.layout cimport (
    ENTRY_KEY_HASH_AT, ENTRY_PHYSICAL_OFFSET_AT, ENTRY_PREVIOUS_AT, ENTRY_SIZE, ENTRY_TIME_DIFF_AT, HEADER_SIZE, SLOT_SIZE, TIME_DIFF_MAX,
)

cdef class KeyEntries:
    cdef list _files
    cdef long long _entries_at
    cdef object _view
    cdef const unsigned char *_data
    cdef long long _count, _begin, _first_begin
    cdef readonly bint is_there
    cdef readonly long long file
    cdef readonly long long number
    cdef readonly long long key_hash
    cdef readonly long long physical_offset
    cdef readonly long long seconds
    cdef readonly long long begin_timestamp

    @cython.locals(at=cython.longlong)
    cpdef bint go_to(self, long long file, long long number) except -1

    cpdef bint is_time_right(self, long long store_timestamp) except -1

@cython.locals(data="const unsigned char *", slot_data="unsigned char *", at=cython.longlong, key_hash=cython.longlong, slot_at=cython.longlong, used=cython.longlong)
cpdef tuple follow_chains(object view, long long slots, long long number, long long count, object newest)
