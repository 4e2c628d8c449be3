# The types of stored_properties.py.
cimport cython

from broker.header_scan cimport bytes_pointer, unescape
from headrace.protocol.big_endian cimport address_of, find_byte, is_equal, store_bytes
from headrace.protocol.record_layout cimport MAX_PROPERTIES_LENGTH, VALUE_END, PropertyParts, read_property

ctypedef unsigned char *_memory

cdef class StoredProperties:
    cdef bytes _cluster
    cdef object _text_memory, _raw_memory, _joined_memory
    cdef _memory text, _raw, joined
    cdef Py_ssize_t length
    cdef bint waits
    cdef public Py_ssize_t length_limit, count_limit

    @cython.locals(size=Py_ssize_t, raw=_memory, found=PropertyParts, first=int, is_stored=bint, count=Py_ssize_t)
    cdef bint store(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t length, bint is_batch) except -1
    cdef take(self, bytes properties)
    @cython.locals(joined=_memory)
    cdef Py_ssize_t join(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t length) noexcept
    @cython.locals(end=Py_ssize_t, count=Py_ssize_t)
    cdef Py_ssize_t count(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t length) noexcept
    cdef void _begin_property(self) noexcept
    @cython.locals(at=Py_ssize_t)
    cdef bint _is_repeated(self, Py_ssize_t name_at, Py_ssize_t name_length) noexcept

cdef bint _is_true(bytes_pointer raw, Py_ssize_t at) noexcept
