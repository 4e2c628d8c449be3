# The types of role_notifier.py.
cimport cython

from ipc.bells cimport Bell
from ipc.control_block cimport ControlBlock

cdef class RoleNotifier:
    cdef ControlBlock _control
    cdef dict _bells
    cdef tuple _followers
    cdef long long _file_size
    cdef object _publisher, _changed_options
    cdef readonly dict changed_before

    @cython.locals(bell=Bell)
    cpdef appended(self)
