# The types of health_row.py.
cimport cython
from cpython.time cimport monotonic_ns

from ipc.cells cimport keep_words, store_cell, writable_cells_of

cdef Py_ssize_t _HEARTBEAT, _CALL_UNTIL

cpdef long long monotonic_ms() except -1

cdef class HealthRow:
    cdef object _words, _view
    cdef long long *_cells
    cdef Py_ssize_t _word
    cdef str _what

    cpdef beat(self, long long now_ms)
    cpdef long_call(self, str what, long long until_ms)
    cpdef long_call_over(self)
    @cython.locals(cells='long long *', word=Py_ssize_t)
    cdef _store_call(self, bytes text, long long until_ms)
