# The types of durations.py.
cimport cython

cdef int _KEPT

cdef class Durations:
    cdef object _clock_ns, _last
    cdef long long[::1] _counts
    cdef long long _minute_ends, _longest_ns

    cpdef add(self, long long began_ns, long long times=*)
    @cython.locals(took_ns=cython.longlong, shift=int)
    cpdef add_until(self, long long now_ns, long long began_ns, long long times)
    cpdef _turn(self, long long now_ns)
