# The types of hot_pull.py.
cimport cython

from broker.header_scan cimport BAD, HeaderScan, bytes_pointer
from broker.signed_frame cimport SignedFrame
from headrace.protocol.big_endian cimport copy_bytes
from store.query.gather cimport Gatherer

cdef int _PULL, _LITE_PULL, _COMMIT_OFFSET, _SUBSCRIPTION
cdef int _GROUP, _TOPIC, _QUEUE_ID, _QUEUE_OFFSET, _MAX_COUNT, _FLAGS, _COMMIT, _EXPRESSION, _VERSION, _TYPE, _ACCESS_KEY, _SIGNATURE, _SCANNED

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
    cdef HeaderScan _scan
    cdef SignedFrame _signed

    @cython.locals(plan=PullPlan, queue_id=int)
    cpdef list take_counts(self)
    @cython.locals(p=bytes_pointer, scan=HeaderScan)
    cpdef bytes answer(self, bytes data, Py_ssize_t position, object access=*)
    @cython.locals(start=Py_ssize_t)
    cdef bytes _field(self, bytes_pointer p, int field)
    @cython.locals(scan=HeaderScan, flags=cython.longlong, version=cython.longlong, queue_id=cython.longlong, offset=cython.longlong, max_count=cython.longlong, plan=PullPlan, commit=cython.longlong, gatherer=Gatherer)
    cdef bytes _answer(self, bytes_pointer p, object access)
    cdef bint _may_pull(self, bytes_pointer p, PullPlan plan, object access) except -1
