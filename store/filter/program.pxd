# The types of program.py.
cimport cython

from headrace.protocol.big_endian cimport address_of, load_i32
from headrace.protocol.record_layout cimport TOTAL_SIZE_AT, WHOLE, PropertyParts, RecordParts, find_parts, read_property

cdef int _FALSE, _TRUE, _UNKNOWN, _FAILED
cdef int _TRUTH, _AND, _OR, _NOT, _EQUAL, _NOT_EQUAL, _LESS, _LESS_EQUAL, _GREATER, _GREATER_EQUAL, _IS_NULL, _IS_NOT_NULL
cdef int _IN, _NOT_IN, _BETWEEN, _NOT_BETWEEN, _CAST, _PROPERTY, _INT, _LONG, _DOUBLE, _STRING, _NEGATED
cdef int _NULL, _BOOLEAN, _NO_VALUE, _EXACT_DIGITS, _PLAIN_DIGITS

cdef class Program:
    cdef readonly tuple names
    cdef readonly Py_ssize_t term_count
    cdef int[::1] _nodes
    cdef int _root
    cdef int[::1] _links
    cdef long long[::1] _longs
    cdef double[::1] _doubles
    cdef double[::1] _powers
    cdef int[::1] _loose
    cdef long long[::1] _text_start
    cdef long long[::1] _text_length
    cdef bytes _pool_bytes
    cdef const unsigned char *_pool
    cdef int _slots
    cdef long long[::1] _name_start
    cdef long long[::1] _name_length
    cdef bytes _name_bytes
    cdef const unsigned char *_name_pool
    cdef long long[::1] _value_start
    cdef long long[::1] _value_length
    # Only good during a call: what it points at is held by the caller.
    cdef const unsigned char *_data
    cdef long long _long
    cdef double _double
    cdef Py_ssize_t _at
    cdef Py_ssize_t _size
    cdef int _literal

    @cython.locals(data="const unsigned char *")
    cpdef int outcome_of_stored(self, bytes properties) except -1
    cpdef int outcome_of_record(self, object view, long long position) except -1
    @cython.locals(parts=RecordParts)
    cdef int outcome_at(self, const unsigned char *data, long long position) except -1

    @cython.locals(slot=int, at=Py_ssize_t, found=PropertyParts, outcome=int)
    cdef int _outcome_between(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(slot=int)
    cdef int _slot_of(self, Py_ssize_t at, Py_ssize_t length) noexcept
    @cython.locals(i=Py_ssize_t, start=Py_ssize_t, names="const unsigned char *", data="const unsigned char *")
    cdef bint _is_name(self, int slot, Py_ssize_t at, Py_ssize_t length) noexcept

    @cython.locals(place=int, kind=int, first=int, second=int, value=int, decisive=int, answer=int, truth=int, i=int, found=int, is_null=int)
    cdef int _truth(self, int node) except -1
    @cython.locals(value=int, number="long long", real=double, at=Py_ssize_t, size=Py_ssize_t, literal=int, one=int, two=int, decisive=int)
    cdef int _between(self, bint outside, int node, int low, int high) except -1
    @cython.locals(start=Py_ssize_t, length=Py_ssize_t, i=int)
    cdef int _is_one_of(self, int slot, int first, int count) except -1
    @cython.locals(ordered=bint, other=int, equal=bint)
    cdef int _compare(self, int kind, int value, long long number, double real, Py_ssize_t at, Py_ssize_t size, int literal, int node) except -1
    @cython.locals(other_real=double, other_number="long long")
    cdef int _compare_numbers(self, int kind, int value, long long number, double real, Py_ssize_t at, Py_ssize_t size, int literal, int other) except -1

    @cython.locals(place=int, kind=int, first=int, value=int, truth=int)
    cdef int _load(self, int node) except -1
    @cython.locals(one="const unsigned char *", other="const unsigned char *", same=bint, i=Py_ssize_t)
    cdef bint _is_text(self, Py_ssize_t at, Py_ssize_t size, int literal, Py_ssize_t other_at, Py_ssize_t other_size, int other_literal) except -1
    @cython.locals(text="const unsigned char *")
    cdef int _is_true(self, Py_ssize_t at, Py_ssize_t size, int literal) except -1
    @cython.locals(text="const unsigned char *", i=Py_ssize_t)
    cdef str _text(self, Py_ssize_t at, Py_ssize_t size, int literal)
    @cython.locals(text="const unsigned char *", number="long long", i=Py_ssize_t, end=Py_ssize_t, plain=bint, digit=int)
    cdef bint _read_integer(self, Py_ssize_t at, Py_ssize_t size, int literal, bint wide) except -1
    @cython.locals(text="const unsigned char *", mantissa="long long", digits=int, fraction=int, i=Py_ssize_t, end=Py_ssize_t, pointed=bint, plain=bint, letter=int, real=double)
    cdef bint _read_double(self, Py_ssize_t at, Py_ssize_t size, int literal) except -1

cdef int _negation(int truth) noexcept
@cython.locals(holds=bint)
cdef int _holds(int kind, int sign) noexcept
cdef double _to_double(long long number) noexcept
cdef int _compare_doubles(double one, double other) except? -9
cdef int _sign_of_zero(double zero) except? -9
