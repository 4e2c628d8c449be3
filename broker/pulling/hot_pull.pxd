# The types of pull.py.
cimport cython

from broker.connections.json_scan cimport BAD, bytes_pointer, parse_number, string_end
from headrace.protocol.big_endian cimport load_u32
from store.query.gather cimport Gatherer

cdef int _PULL, _LITE_PULL, _COMMIT_OFFSET, _SUBSCRIPTION
cdef int _GROUP, _TOPIC, _QUEUE_ID, _QUEUE_OFFSET, _MAX_COUNT, _FLAGS, _COMMIT, _HOLD, _EXPRESSION, _VERSION, _TYPE, _FIELDS

cdef int _field_of(bytes_pointer p, Py_ssize_t at, Py_ssize_t length) noexcept
cdef bint _is_name(bytes_pointer p, Py_ssize_t at, const char* name, Py_ssize_t length) noexcept

cdef class PullPlan:
    cdef readonly str group
    cdef readonly str topic
    cdef readonly int queue_count
    cdef readonly set codes
    cdef readonly long long suggested_broker
    cdef readonly long long slow_broker
    cdef long long messages_out
    cdef long long bytes_out
    cdef long long[::1] pulls

cdef class PullPath:
    cdef Gatherer _gatherer
    cdef object _read
    cdef object _commit
    cdef bint _commits
    cdef dict _plans
    cdef bytes _tail
    cdef list _counted
    cdef readonly long long pulls_answered
    cdef Py_ssize_t _value_start[11]
    cdef Py_ssize_t _value_length[11]
    cdef long long _opaque

    @cython.locals(plan=PullPlan, queue_id=int)
    cpdef list take_counts(self)
    @cython.locals(p=bytes_pointer, left=Py_ssize_t, length=cython.longlong)
    cpdef bytes answer(self, bytes data, Py_ssize_t position)
    @cython.locals(field=int, code=cython.longlong, flag=cython.longlong, start=Py_ssize_t, name=int, name_length=Py_ssize_t, number=cython.longlong)
    cdef bint _scan(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t end) noexcept
    @cython.locals(start=Py_ssize_t, field=int)
    cdef Py_ssize_t _scan_fields(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t end) noexcept
    @cython.locals(start=Py_ssize_t)
    cdef bytes _field(self, bytes data, int field)
    cdef long long _value(self, bytes_pointer p, int field) noexcept
    @cython.locals(flags=cython.longlong, version=cython.longlong, queue_id=cython.longlong, offset=cython.longlong, max_count=cython.longlong, plan=PullPlan, commit=cython.longlong, gatherer=Gatherer)
    cdef bytes _answer(self, bytes_pointer p, bytes data)
