# The types of role_notifier.py.
cimport cython

from ipc.bells cimport Bell
from ipc.cells cimport load_cell
from ipc.control_block cimport ControlBlock

cdef Py_ssize_t _ALLOCATED_OFFSET, _WROTE_OFFSET

cdef class RoleNotifier:
    cdef ControlBlock _control
    cdef dict _bells
    cdef tuple _followers
    cdef long long _file_size
    cdef object _publisher, _changed_options
    cdef readonly dict changed_before

    @cython.locals(bell=Bell, cells='long long *')
    cpdef appended(self)
