# The types of daemon.py.
cimport cython

from ipc.bells cimport Bell
from ipc.cells cimport load_cell
from ipc.control_block cimport ControlBlock
from ipc.publish.flush cimport FlushPublisher
from ipc.role_context cimport RoleContext
from store.followed_options cimport FollowedOptions

cdef Py_ssize_t _ALLOCATED_OFFSET, _FLUSHED_OFFSET, _FLUSHED_TIMESTAMP, _MIN_OFFSET, _WROTE_OFFSET, _WROTE_TIMESTAMP

cdef class Flusher:
    cdef RoleContext _context
    cdef object _config, _paths, _failure, _files
    cdef readonly FollowedOptions options
    cdef ControlBlock _control
    cdef Bell _broker_bell
    cdef bint _is_sync
    cdef long long _file_size
    cdef FlushPublisher _publisher
    cdef long long _last_thorough_ms

    @cython.locals(cells='long long *', timestamp=cython.longlong, wrote=cython.longlong)
    cpdef sync_if_due(self)
    cdef bint _is_called(self) except -1
    @cython.locals(wrote=cython.longlong, flushed=cython.longlong)
    cpdef bint _has_work(self) except -1
    @cython.locals(cells='long long *')
    cdef long long _flushed_offset(self) except? -1
    @cython.locals(begin=cython.longlong, file_start=cython.longlong, end=cython.longlong, known=cython.longlong)
    cdef _sync(self, long long wrote, long long timestamp)
