# The types of slave_log.py.
cimport cython

from ipc.control_block cimport ControlBlock
from ipc.publish.log cimport LogPublisher

cdef class SlaveLog:
    cdef ControlBlock _control
    cdef object _config, _paths, _files
    cdef LogPublisher _publisher
    cdef long long _size, _timestamp, _damaged_offset, _searched_offset
    cdef bint _has_fitted
    cdef readonly long long wrote_offset, copied_offset

    cpdef check_offset(self, long long offset)
    @cython.locals(end=cython.longlong, position=cython.longlong)
    cpdef append(self, long long offset, data)
    @cython.locals(offset=cython.longlong, timestamp=cython.longlong, position=cython.longlong, copied=cython.longlong)
    cpdef bint publish_complete(self) except -1
    cdef _file_for(self, long long offset)
    cdef long long _behind_damage(self, file, long long offset, long long copied, reason) except? -2
    cdef bint _may_be_whole_later(self, file, long long position) except -1
