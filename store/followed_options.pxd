# The types of followed_options.py.
cimport cython

from ipc.cells cimport load_cell
from ipc.control_block cimport ControlBlock

cdef Py_ssize_t _CONFIG_VERSION

cdef class FollowedOptions:
    cdef ControlBlock _control
    cdef object _page, _config
    cdef long long _seen

    cpdef bint have_changed(self) except -1
