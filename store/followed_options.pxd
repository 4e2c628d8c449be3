# The types of followed_options.py.
cimport cython

from ipc.control_block cimport ControlBlock

cdef class FollowedOptions:
    cdef ControlBlock _control
    cdef object _page, _config
    cdef long long _seen
