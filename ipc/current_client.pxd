# The types of current_client.py.
cimport cython

cdef int _CELLS

cdef class CurrentClient:
    cdef long long[::1] _cells

    @cython.locals(cell=Py_ssize_t)
    cpdef begin(self, const long long[::1] client)
    cpdef end(self)
