# The types of send_answers.py.
cimport cython

from headrace.protocol.big_endian cimport address_of, copy_bytes, store_bytes, store_i32
from headrace.protocol.frame_layout cimport HEAD_SIZE, LENGTH_SIZE

ctypedef unsigned char *_memory

cdef int _NUMBERS_ROOM, _OFFSET_DIGITS
cdef bytes _HEX

cdef class AnswerBuffer:
    cdef object _memory
    cdef _memory out
    cdef Py_ssize_t room, length
    cpdef bytes take(self)
    cdef reserve(self, Py_ssize_t needed)

cdef class SendAnswers:
    cdef AnswerBuffer now, held
    cdef bint _hold
    cdef bytes _before_id, _id_before_offset, _tail
    cdef Py_ssize_t _fixed_length
    cdef object _ids_memory
    cdef _memory _ids
    cdef Py_ssize_t _ids_room, _ids_length

    @cython.locals(size=Py_ssize_t)
    cdef begin(self, Py_ssize_t count)
    @cython.locals(before=bytes, length=Py_ssize_t, at=Py_ssize_t, out=_memory, shift=int)
    cdef note_id(self, long long physical_offset)
    cpdef str message_ids(self)
    @cython.locals(buffer=AnswerBuffer, out=_memory, frame=Py_ssize_t, at=Py_ssize_t, length=Py_ssize_t, text=bytes)
    cdef write(self, long long opaque, long long queue_offset, long long queue_id, bint waits)

@cython.locals(digits=int, rest=cython.longlong, end=Py_ssize_t)
cdef Py_ssize_t _put_number(_memory out, Py_ssize_t at, long long value) noexcept
