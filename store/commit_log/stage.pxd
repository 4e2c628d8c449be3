# The types of stage.py.
cimport cython

cdef class Stage:
    cdef object _memory, _file_for
    cdef readonly object view
    cdef long long _begin, _file_start, _file_end
    cdef int _fd
    cdef readonly str failure

    cpdef begin(self, long long offset)
    @cython.locals(length=cython.longlong, done=cython.longlong)
    cpdef write(self, long long end)
    cpdef bint end_file(self, long long end) except -1
