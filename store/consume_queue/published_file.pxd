# The types of published_file.py.
cimport cython

from headrace.protocol.big_endian cimport address_of, load_i64
from headrace.protocol.consume_queue_layout cimport ENTRY_PHYSICAL_OFFSET_AT, ENTRY_SIZE
from ipc.queue_rows cimport RowReader

cdef class PublishedFile:
    cdef RowReader _rows
    cdef long long _row
    cdef long long _changes
    cdef readonly object view
    cdef const unsigned char *_entries
    cdef long long _size
    cdef long long _first
    cdef readonly long long begin
    cdef readonly long long end
    cdef readonly long long least
    cdef readonly long long most
    cdef readonly long long physical_offset

    @cython.locals(rows=RowReader, begin='long long', end='long long')
    cpdef bint find(self, long long queue_offset) except -1
