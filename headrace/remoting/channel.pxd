# The types of channel.py.
cimport cython

from headrace.remoting.client_usage cimport ClientUsage
from headrace.remoting cimport socket_calls
from headrace.remoting.turns cimport Turns

cdef int _NOTHING, _UNREAD, _UNREAD_END

cdef class Channel:
    cdef object __weakref__
    cdef object _endpoint, _loop, _reader, _partial, _writable, _closed, _stalled_since
    cdef readonly object close_reason
    cdef public object _transport
    cdef Turns _turns
    cdef bint _always_reads, _is_new, _is_lost, _is_draining, _is_batching, _is_handshaking
    cdef bint _is_waiting_for_room, _has_room, _is_waiting_for_turn, _is_in_turn
    cdef int _unread
    cdef bytes _rest
    cdef int _fd
    cdef bint _is_read_directly
    cdef bint _is_transport_sending
    cdef list _batch
    cdef long long _batch_size, _buffered_in, _buffered_out, _carried_out, _in_progress, _tls_bytes
    cdef long long _read_bytes, _written_bytes, _seen_moved
    cdef double _last_active, _last_read
    cdef ClientUsage _usage_of_address
    cdef readonly ClientUsage usage
    cdef readonly long long held_bytes, opened_at_ms
    cdef readonly double moved_at
    cdef readonly bint is_writing_paused
    cdef readonly str remote
    cdef readonly tuple remote_address
    cdef readonly object peer_certificate, handler
    cdef object _begin, _take, _end

    cpdef bint takes_frames(self) except -1
    cpdef data_received(self, bytes data)
    @cython.locals(position=Py_ssize_t)
    cdef _receive(self, bytes data)
    @cython.locals(size=Py_ssize_t, needed=Py_ssize_t)
    cdef _keep(self, bytes data, Py_ssize_t position)
    cpdef bint frame_must_wait(self) except -1
    cdef bint reads_later(self, bint has_ended) except -1
    cpdef take_turn(self)
    cdef _leave_socket(self)
    cdef _wait_for_turn(self, Turns turns)
    @cython.locals(position=Py_ssize_t)
    cdef _keep_for_turn(self, Turns turns, bytes data)
    @cython.locals(held=cython.longlong, change=cython.longlong)
    cdef _count(self, long long buffered_in, long long buffered_out)
    cdef _end_batch(self)
    cpdef write(self, bytes data)
    cdef _flush(self)
    @cython.locals(sent=Py_ssize_t)
    cdef _put(self, bytes data)
