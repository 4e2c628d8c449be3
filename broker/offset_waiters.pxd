# The types of offset_waiters.py.
cimport cython

from broker.appending.ack_gate cimport AckGate
from ipc.bells cimport Bell
from ipc.control_block cimport ControlBlock

cdef class OffsetWaiters:
    cdef object _changed_rows, _queue_keys
    cdef AckGate _gate
    cdef object _without_file, _put_again
    cdef ControlBlock _control
    cdef Bell _dispatch_bell
    cdef readonly object wakeups
    cdef readonly object ask, held
