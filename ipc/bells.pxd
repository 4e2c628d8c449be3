# The types of bells.py.
cimport cython

from ipc.cells cimport cells_of, full_fence, keep_words, load_cell, store_cell
from ipc.eventfds cimport drain_eventfd, ring_eventfd

cdef int _SLEEPS, _NAPS, _NO_WORD

cdef class Bell:
    cdef readonly int fd
    cdef object _words
    cdef long long *_cells
    cdef Py_ssize_t _asleep_word, _urgent_word

    @cython.locals(asleep=cython.longlong)
    cpdef bint ring(self) except -1
    cpdef prepare_sleep(self)
    cpdef prepare_nap(self)
    cpdef woke(self)
    cpdef bint drain(self) except -1
