# The types of queue_rows.py.
cimport cython

from ipc.cells cimport cells_of, keep_words, load_cell, store_cell

cdef int _CHANGES, _FIRST_ROW_WORD, _ROW_WORDS, _GENERATION, _MIN_QUEUE_OFFSET, _MAX_QUEUE_OFFSET, _MAX_PHYSICAL_OFFSET

cdef class QueueRows:
    cdef object _words
    cdef long long *_cells
    cdef long long _capacity

    @cython.locals(cells='long long *', word=Py_ssize_t, generation='long long')
    cpdef update(self, long long row, long long min_queue_offset, long long max_queue_offset, long long max_physical_offset)

cdef class RowReader:
    cdef object _words
    cdef long long *_cells
    cdef long long _capacity
    cdef readonly long long min_queue_offset
    cdef readonly long long max_queue_offset
    cdef readonly long long max_physical_offset
    cdef readonly long long changes

    @cython.locals(cells='long long *', word=Py_ssize_t, generation='long long')
    cpdef bint load(self, long long row) except -1
    cpdef bint has(self, long long row, long long queue_offset) except -1
