# The types of wakeups.py.
cimport cython

from ipc.bells cimport Bell
from ipc.control_block cimport ControlBlock

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
    cdef tuple _offsets(self)
