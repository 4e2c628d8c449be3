# The types of client_usage.py.

cdef class ClientUsage:
    cdef readonly str name
    cdef public long long connections, handshakes, requests
    cdef public long long window, spent_ns
    cdef readonly object waiting
    cdef public bint is_queued
