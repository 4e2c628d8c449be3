# The types of signed_frame.py.
cimport cython

from broker.header_scan cimport HeaderScan, bytes_pointer, escaped_string_end, string_end, unescape
from broker.sha1 cimport begin, end, load, update
from headrace.protocol.big_endian cimport address_of, copy_bytes, find_byte

ctypedef unsigned char *_memory

cdef int _MAX_FIELDS, _BLOCK, _DIGEST
cdef Py_ssize_t _MAX_LENGTH

cdef class SigningKey:
    cdef readonly bytes inner, outer

cdef class SignedFrame:
    cdef object _value_memory, _digest_memory, _encode, _is_same
    cdef _memory _value, _digest
    cdef bint _has_sha1
    cdef int _count
    cdef Py_ssize_t _names[32]
    cdef Py_ssize_t _name_ends[32]
    cdef Py_ssize_t _values[32]
    cdef Py_ssize_t _value_ends[32]

    @cython.locals(start=Py_ssize_t, length=Py_ssize_t)
    cdef bint is_signed(self, bytes_pointer p, HeaderScan scan, int signature, SigningKey key) except -1
    @cython.locals(place=int, at=Py_ssize_t, stop=Py_ssize_t, size=Py_ssize_t)
    cdef bint _hash(self, bytes_pointer p, HeaderScan scan, SigningKey key) except -1
    @cython.locals(at=Py_ssize_t, stop=Py_ssize_t, count=int, place=int, name=Py_ssize_t, name_end=Py_ssize_t, value=Py_ssize_t)
    cdef bint _sort_fields(self, bytes_pointer p, HeaderScan scan, Py_ssize_t signature_at) noexcept

cdef bint _is_before(bytes_pointer p, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t other, Py_ssize_t other_stop) noexcept
