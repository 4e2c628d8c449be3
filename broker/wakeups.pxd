# The types of wakeups.py.
cimport cython

from ipc.bells cimport Bell
from ipc.cells cimport load_cell
from ipc.control_block cimport ControlBlock

cdef Py_ssize_t _REPUT_OFFSET, _FLUSHED_OFFSET, _PUSH2SLAVE_MAX_OFFSET, _SLAVE_COUNT, _ALLOCATED_OFFSET

cdef class Waiting:
    cdef readonly Bell bell
    cdef object is_anyone, asked
    cdef bint is_asking

cdef class Wakeups:
    cdef tuple _waiting, _seen
    cdef Bell _bell
    cdef ControlBlock _control
    cdef object _look

    @cython.locals(one=Waiting)
    cpdef ask(self)
    cpdef look(self)
    cpdef _rung(self)
    @cython.locals(one=Waiting)
    cdef bint _is_anyone_waiting(self) except -1
    @cython.locals(one=Waiting)
    cdef bint _is_asking(self)
    @cython.locals(one=Waiting)
    cdef _ask_nobody(self)
    @cython.locals(one=Waiting)
    cdef _sleep(self)
    @cython.locals(cells='long long *')
    cdef tuple _offsets(self)
