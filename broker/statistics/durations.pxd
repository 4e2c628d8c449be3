# The types of durations.py.
cimport cython

cdef int _KEPT

cdef class Durations:
    cdef object _clock_ns, _last
    cdef dict _counts
    cdef long long _minute_ends, _longest_ns

    @cython.locals(now_ns=cython.longlong, took_ns=cython.longlong, shift=int)
    cpdef add(self, long long began_ns, long long times=*)
    cpdef _turn(self, long long now_ns)
