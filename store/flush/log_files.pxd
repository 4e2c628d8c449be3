# The types of log_files.py.
cimport cython

cdef class LogFiles:
    cdef object _paths
    cdef long long _file_size, _seen_first, _seen_allocated
    cdef dict _maps

    @cython.locals(first=cython.longlong, start=cython.longlong)
    cpdef open_reserved(self, long long flushed_offset, long long allocated_offset)
    @cython.locals(start=cython.longlong)
    cpdef bint has_before(self, long long min_offset) except -1
    @cython.locals(first=cython.longlong)
    cpdef sync(self, long long file_start, long long begin, long long end)
