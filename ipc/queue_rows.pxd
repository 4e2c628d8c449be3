# The types of queue_rows.py.
cimport cython

cdef extern from *:
    """
    #ifndef HEADRACE_CELLS
    #define HEADRACE_CELLS
    static inline long long *headrace_cells_of(PyObject *words) {
        return (long long *)PyMemoryView_GET_BUFFER(words)->buf;
    }
    static inline void headrace_store_cell(long long *cells, Py_ssize_t word, long long value) {
        __atomic_store_n(cells + word, value, __ATOMIC_RELEASE);
    }
    static inline long long headrace_load_cell(long long *cells, Py_ssize_t word) {
        return __atomic_load_n(cells + word, __ATOMIC_ACQUIRE);
    }
    #endif
    """
    long long *cells_of "headrace_cells_of"(object words)
    void store_cell "headrace_store_cell"(long long *cells, Py_ssize_t word, long long value) noexcept
    long long load_cell "headrace_load_cell"(long long *cells, Py_ssize_t word) noexcept

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
