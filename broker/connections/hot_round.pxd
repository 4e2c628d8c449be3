# The types of hot_round.py.
cimport cython
from cpython.time cimport monotonic_ns

from broker.appending.ack_gate cimport AckGate
from broker.statistics.durations cimport Durations
from headrace.remoting.channel cimport Channel
from headrace.remoting.connection cimport Connection
from store.commit_log.append cimport CommitLogAppender

@cython.freelist(64)
cdef class HotBatch:
    cdef readonly Connection connection
    cdef readonly Channel channel
    cdef readonly long long began_ns, puts
    cdef readonly bytes answers, held

cdef class HotRound:
    cdef CommitLogAppender _log
    cdef AckGate _gate
    cdef object _ring
    cdef Durations _puts
    cdef list _batches
    cdef bint _in_parts
    cdef long long _held

    @cython.locals(is_first=bint, batch=HotBatch)
    cpdef add(self, Connection connection, Channel channel, long long began_ns, long long puts, bytes answers, bytes held)
    @cython.locals(batches=list, batch=HotBatch, held=list, now_ns=cython.longlong)
    cpdef end(self)
    @cython.locals(batch=HotBatch, answers=bytes, now_ns=cython.longlong)
    cpdef _answer_held(self, list batches, status)
