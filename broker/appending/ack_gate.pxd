# The types of ack_gate.py.
cimport cython

from ipc.cells cimport load_cell
from ipc.control_block cimport ControlBlock

cdef Py_ssize_t _FLUSHED_OFFSET, _PUSH2SLAVE_MAX_OFFSET, _SLAVE_COUNT

@cython.freelist(8)
cdef class _Waiting:
    cdef long long end_offset
    cdef double flush_deadline, slave_deadline
    cdef object answer

cdef class AckGate:
    cdef ControlBlock _control
    cdef object _clock, _config, _waiting
    cdef public object _on_wait
    cdef bint _sync_flush, _sync_slave

    @cython.locals(now=double, flush_deadline=double, slave_deadline=double, waiting=_Waiting)
    cpdef wait(self, long long end_offset, answer)
    @cython.locals(now=double)
    cpdef release(self)
    cdef bint _try(self, _Waiting waiting, double now) except -1
    @cython.locals(cells='long long *')
    cdef _outcome(self, _Waiting waiting, double now)
    @cython.locals(cells='long long *', behind=cython.longlong, slaves=cython.longlong)
    cdef bint _has_usable_slave(self, long long end_offset) except -1
