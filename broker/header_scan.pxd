# The types of header_scan.py, and what the hot paths cimport.
cimport cython

from headrace.protocol.big_endian cimport copy_until, equal_length, find_byte, is_equal, load_u32, store_bytes
from headrace.protocol.frame_layout cimport FRAME_MAX_LENGTH, HEAD_SIZE, LENGTH_SIZE

ctypedef const unsigned char* bytes_pointer

cdef long long BAD
cdef int _PARTIAL, _OTHER, _SCANNED, _MAX_FIELDS, _SLOTS, _OPAQUE, _MOST_VALUES, _KEPT_LENGTH

cdef class HeaderScan:
    cdef long long _code, _other_code
    cdef int _escaped, _count
    cdef bint _ignores_others
    cdef tuple _given  # the names' memory
    cdef signed char _slots[256]
    cdef bytes_pointer _names[26]
    cdef Py_ssize_t _name_lengths[26]
    cdef Py_ssize_t starts[27]
    cdef Py_ssize_t lengths[27]
    cdef int _values[27]
    cdef int _count_values
    cdef unsigned char _kept_header[1024]
    cdef Py_ssize_t _kept_starts[27]
    cdef Py_ssize_t _kept_lengths[27]
    cdef Py_ssize_t _kept, _kept_fields_at
    cdef long long _kept_opaque
    cdef public long long header_limit
    cdef long long opaque, flag
    cdef bint has_others
    cdef Py_ssize_t fields_at, body_at, body_length, end

    @cython.locals(length=cython.longlong, header_length=cython.longlong, header=Py_ssize_t)
    cdef int scan(self, bytes_pointer p, Py_ssize_t position, Py_ssize_t end) noexcept
    cdef long long number(self, bytes_pointer p, int field) noexcept
    @cython.locals(value=int, field=int)
    cdef void _keep(self, bytes_pointer p, Py_ssize_t header, Py_ssize_t length) noexcept
    @cython.locals(at=Py_ssize_t, kept=Py_ssize_t, same=Py_ssize_t, start=Py_ssize_t, value=int, field=int)
    cdef bint _scan_like_kept(self, bytes_pointer p, Py_ssize_t header, Py_ssize_t end) noexcept
    @cython.locals(field=int, start=Py_ssize_t, name=int, name_length=Py_ssize_t, number=cython.longlong, has_code=bint, has_fields=bint)
    cdef bint _scan_header(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t end) noexcept
    @cython.locals(field=int, start=Py_ssize_t)
    cdef Py_ssize_t _scan_fields(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t end) noexcept
    cdef void _note_value(self, int field, Py_ssize_t start, Py_ssize_t end) noexcept

@cython.locals(end=Py_ssize_t, negative=bint, value=cython.longlong, digit=int)
cdef long long parse_number(bytes_pointer p, Py_ssize_t at, Py_ssize_t length) noexcept
cdef Py_ssize_t string_end(bytes_pointer p, Py_ssize_t at, Py_ssize_t end) noexcept
@cython.locals(stop=Py_ssize_t, slashes=Py_ssize_t)
cdef Py_ssize_t escaped_string_end(bytes_pointer p, Py_ssize_t at, Py_ssize_t end) noexcept
@cython.locals(run=Py_ssize_t, byte=int, high=int, low=int)
cdef Py_ssize_t unescape(bytes_pointer p, Py_ssize_t at, Py_ssize_t end, unsigned char *out, Py_ssize_t out_at) noexcept
cdef int _hex_digit(int byte) noexcept
cdef int _slot_of(bytes_pointer p, Py_ssize_t at, Py_ssize_t length) noexcept
