# The types of hot_requests.py.
cimport cython
from cpython.time cimport monotonic_ns, time_ns

from broker.connections.hot_round cimport HotRound
from broker.pulling.hot_pull cimport PullPath
from broker.sending.hot_send cimport SendPath
from broker.statistics.durations cimport Durations
from headrace.remoting.channel cimport Channel
from headrace.remoting.connection cimport Connection
from ipc.current_client cimport CurrentClient
from store.commit_log.append cimport CommitLogAppender

cdef int _PARTIAL

cdef class HotRequests:
    cdef Connection _connection
    cdef CurrentClient _mark
    cdef Durations _gets
    cdef Channel _channel
    cdef SendPath _path
    cdef PullPath _pulls
    cdef CommitLogAppender _log
    cdef HotRound _round
    cdef const long long[::1] _client
    cdef bytes _born_host
    cdef int _born_flag
    cdef object _admission, _access
    cdef bint _is_cut, _must_check
    cdef long long _began_ns, _puts_before, _gets_before

    cpdef begin_batch(self)
    @cython.locals(channel=Channel, path=SendPath, pulls=PullPath, end=Py_ssize_t, stop=Py_ssize_t, answer=bytes)
    cpdef Py_ssize_t take(self, bytes data, Py_ssize_t position) except -1
    @cython.locals(path=SendPath, pulls=PullPath, puts=cython.longlong)
    cpdef end_batch(self)
