# The types of ha.py.
cimport cython

from ipc.cells cimport keep_words, store_cell, writable_cells_of

cdef Py_ssize_t _PUSH2SLAVE_MAX_OFFSET, _SLAVE_COUNT

cdef class HaPublisher:
    cdef object _words
    cdef long long *_cells

    cpdef push2slave_max_offset(self, long long physical_offset)
    cpdef slave_count(self, long long count)
