# The types of log.py.
cimport cython

from ipc.cells cimport keep_words, store_cell, writable_cells_of

cdef Py_ssize_t _APPEND_LIMIT, _REQUESTED_OFFSET, _WROTE_OFFSET, _WROTE_TIMESTAMP

cdef class LogPublisher:
    cdef object _words
    cdef long long *_cells

    cpdef append_limit(self, long long physical_offset)
    cpdef wrote(self, long long physical_offset, long long store_timestamp)
    cpdef requested(self, long long physical_offset)
