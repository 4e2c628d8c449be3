# The types of socket_reader.py.
cimport cython

from headrace.remoting cimport socket_calls
from headrace.remoting.channel cimport Channel

cdef class SocketReader:
    cdef object _loop, _epoll
    cdef int _fd
    cdef list _channels
    cdef socket_calls.epoll_event _events[socket_calls.EVENTS]

    @cython.locals(channel=Channel, fd=cython.int, has_ended=cython.bint, each=cython.int)
    cpdef _run(self)
    @cython.locals(data=bytes)
    cpdef read(self, int fd, Channel channel, bint has_ended)
