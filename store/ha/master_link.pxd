# The types of master_link.py.
cimport cython

from ipc.bells cimport Bell
from store.ha.slave_log cimport SlaveLog

cdef class MasterLink:
    cdef object _config, _loop, _transport, _decoder, _frames
    cdef SlaveLog _log
    cdef dict _bells
    cdef long long _reported
    cdef double _last_read, _last_report
    cdef bint _is_waiting
    cdef readonly object ended

    cpdef data_received(self, data)
    cdef _take_frames(self)
    @cython.locals(log=SlaveLog, offset=cython.longlong)
    cdef bint _take(self, frame) except -1
    cdef _report(self)
