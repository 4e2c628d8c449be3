# The types of json_scan.py, and what its callers cimport.
cimport cython

ctypedef const unsigned char* bytes_pointer

cdef long long BAD

@cython.locals(end=Py_ssize_t, negative=bint, value=cython.longlong, digit=int)
cdef long long parse_number(bytes_pointer p, Py_ssize_t at, Py_ssize_t length) noexcept
cdef Py_ssize_t string_end(bytes_pointer p, Py_ssize_t at, Py_ssize_t end) noexcept
