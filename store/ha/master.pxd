# The types of master.py.
cimport cython

from ipc.bells cimport Bell
from ipc.control_block cimport ControlBlock
from ipc.publish.ha cimport HaPublisher

cdef class HaMaster:
    cdef object _make_tls, _tls, _server
    cdef readonly object config, reader
    cdef readonly ControlBlock control
    cdef Bell _broker
    cdef HaPublisher _publisher
    cdef set _links

    @cython.locals(link=SlaveLink)
    cpdef push(self)
    cpdef acknowledge(self, long long offset)

cdef class SlaveLink:
    cdef HaMaster _master
    cdef object _transport, _reports
    cdef bint _is_new, _is_paused, _is_turn_coming
    cdef long long _next_offset
    cdef double _last_read, _last_write
    cdef str _name
    cdef readonly long long acknowledged

    @cython.locals(wrote=cython.longlong)
    cpdef data_received(self, data)
    @cython.locals(wrote=cython.longlong, end=cython.longlong, batch=cython.longlong, size=Py_ssize_t, parts=list)
    cpdef push(self)
