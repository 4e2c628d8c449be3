# The types of turns.py.
cimport cython

from headrace.remoting.client_usage cimport ClientUsage

cdef int _WINDOW_BITS
cdef long long _MARK_NS, _SHARED_NS, _SLICE, _LOOP, _TURN, _IDLE

cdef class Turns:
    cdef object _loop, _clients
    cdef ClientUsage _last
    cdef bint _is_due
    cdef long long _shared_until_ns, _began_ns, _spent_ns, _later_ns, _ran_ns, _ran_later_ns, _left_ns
    cdef public long long ends_ns, waits

    @cython.locals(now=cython.longlong, window=cython.longlong, left_ns=cython.longlong)
    cpdef bint begin(self, ClientUsage usage) except -1
    @cython.locals(now=cython.longlong, spent_ns=cython.longlong)
    cpdef end(self, ClientUsage usage)
    cdef _change_client(self, ClientUsage usage, long long now)
    cpdef charge(self, ClientUsage usage, long long later_ns)
    cpdef wait(self, ClientUsage usage, object channel)
    cdef _run_soon(self)
    @cython.locals(usage=ClientUsage, began=cython.longlong, now=cython.longlong, others_ns=cython.longlong, spent_ns=cython.longlong, slice_ns=cython.longlong)
    cpdef _run(self)
