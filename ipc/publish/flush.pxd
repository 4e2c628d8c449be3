# The types of flush.py.
cimport cython

from ipc.cells cimport keep_words, store_cell, writable_cells_of

cdef Py_ssize_t _FLAG_LOG_ERROR, _FLUSHED_OFFSET, _FLUSHED_TIMESTAMP

cdef class FlushPublisher:
    cdef object _words
    cdef long long *_cells

    cpdef flushed(self, long long physical_offset, long long store_timestamp)
    cpdef log_error(self)
