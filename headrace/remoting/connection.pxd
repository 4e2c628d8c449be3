# The types of connection.py.
cimport cython

from headrace.remoting.channel cimport Channel

cdef class Connection:
    cdef object __weakref__
    cdef object _endpoint, _counted, _turns, _tasks
    cdef readonly object _pending
    cdef bint _is_announced
    cdef long long _in_progress, _request_limit
    cdef public object admission
    cdef readonly Channel channel
    cdef readonly object hot_path, begin_batch, take, end_batch

    @cython.locals(channel=Channel, limit=cython.longlong, before=cython.longlong)
    cpdef count_requests(self, long long change)
