# The C functions of cells: one machine load or store each.
cdef extern from *:
    """
    #ifndef HEADRACE_CELLS
    #define HEADRACE_CELLS
    static inline long long *headrace_cells_of(PyObject *words) {
        return (long long *)PyMemoryView_GET_BUFFER(words)->buf;
    }
    static inline long long *headrace_writable_cells_of(PyObject *words) {
        if (PyMemoryView_GET_BUFFER(words)->readonly) {
            PyErr_SetString(PyExc_TypeError, "these cells are read-only: only their writer may store them");
            return NULL;
        }
        return headrace_cells_of(words);
    }
    static inline void headrace_store_cell(long long *cells, Py_ssize_t word, long long value) {
        __atomic_store_n(cells + word, value, __ATOMIC_RELEASE);
    }
    static inline long long headrace_load_cell(long long *cells, Py_ssize_t word) {
        return __atomic_load_n(cells + word, __ATOMIC_ACQUIRE);
    }
    static inline void headrace_full_fence(void) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    #endif
    """
    object keep_words "PyMemoryView_FromObject"(object words)
    long long *cells_of "headrace_cells_of"(object words)
    long long *writable_cells_of "headrace_writable_cells_of"(object words) except NULL
    void store_cell "headrace_store_cell"(long long *cells, Py_ssize_t word, long long value) noexcept
    long long load_cell "headrace_load_cell"(long long *cells, Py_ssize_t word) noexcept
    void full_fence "headrace_full_fence"() noexcept
