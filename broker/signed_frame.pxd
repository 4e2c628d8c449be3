# The types of signed_frame.py.
cimport cython

from broker.header_scan cimport HeaderScan, bytes_pointer, unescape
from broker.hmac_sha1 cimport begin, finish, has_two, is_same, load, new_state, sign_two, update
from headrace.protocol.big_endian cimport address_of, store_bytes

ctypedef unsigned char *_memory

cdef Py_ssize_t _MAX_LENGTH, _TEXT_SIZE

cdef class SigningKey:
    cdef readonly bytes inner, outer

cdef class SignedFrame:
    cdef list _memories
    cdef _memory _values, _next_values, _expected, _next_expected
    cdef SigningKey _next_key
    cdef bint _has_sha1, _has_two
    cdef int _signature, _escaped, _count
    cdef int _order[26]

    @cython.locals(size=Py_ssize_t)
    cdef bint is_signed(self, bytes_pointer p, HeaderScan scan, SigningKey key) noexcept
    @cython.locals(size=Py_ssize_t, next_size=Py_ssize_t)
    cdef bint is_signed_before(self, bytes_pointer p, HeaderScan scan, HeaderScan following, SigningKey key) noexcept
    cdef bint is_next_signed(self, bytes_pointer p, HeaderScan scan, SigningKey key) noexcept
    @cython.locals(place=int, field=int, start=Py_ssize_t, length=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _join_values(self, bytes_pointer p, HeaderScan scan, _memory to) noexcept
