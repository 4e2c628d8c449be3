# The types of control_block.py.
cimport cython

from ipc.cells cimport cells_of, keep_words, load_cell

cdef class ControlBlock

cdef class _CellReader:
    cdef Py_ssize_t _word
    cdef long long _load(self, ControlBlock block) except? -1

cdef class ControlBlock:
    cdef public object words
    cdef long long *cells
