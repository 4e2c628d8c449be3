# The types of daemon.py.
cimport cython

from ipc.control_block cimport ControlBlock
from ipc.publish.flush cimport FlushPublisher

cdef class Flusher:
    cdef object _context, _config, _paths, _files, _failure
    cdef readonly object options
    cdef ControlBlock _control
    cdef FlushPublisher _publisher
    cdef long long _last_thorough_ms

    @cython.locals(timestamp=cython.longlong, wrote=cython.longlong)
    cpdef sync_if_due(self)
    cdef long long _flushed_offset(self) except? -1
    cdef _sync(self, long long wrote, long long timestamp)
    @cython.locals(begin=cython.longlong)
    cdef _sync_file(self, piece)
