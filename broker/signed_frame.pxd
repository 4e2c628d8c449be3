# The types of signed_frame.py.
cimport cython

from broker.header_scan cimport HeaderScan, bytes_pointer, unescape
from broker.hmac_sha1 cimport begin, finish, is_same, load, new_state, update
from headrace.protocol.big_endian cimport address_of, store_bytes

ctypedef unsigned char *_memory

cdef Py_ssize_t _MAX_LENGTH, _TEXT_SIZE

cdef class SigningKey:
    cdef readonly bytes inner, outer

cdef class SignedFrame:
    cdef object _values_memory, _expected_memory
    cdef _memory _values, _expected
    cdef bint _has_sha1
    cdef int _signature, _escaped, _count
    cdef int _order[26]

    @cython.locals(size=Py_ssize_t)
    cdef bint is_signed(self, bytes_pointer p, HeaderScan scan, SigningKey key) noexcept
    @cython.locals(place=int, field=int, start=Py_ssize_t, length=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _join_values(self, bytes_pointer p, HeaderScan scan) noexcept
