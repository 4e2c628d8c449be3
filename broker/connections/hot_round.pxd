# The types of hot_round.py.
cimport cython

from broker.statistics.durations cimport Durations
from headrace.remoting.channel cimport Channel
from headrace.remoting.connection cimport Connection

@cython.freelist(64)
cdef class HotBatch:
    cdef readonly Connection connection
    cdef readonly Channel channel
    cdef readonly long long began_ns, puts
    cdef readonly bytes answers, held

cdef class HotRound:
    cdef object _appender
    cdef Durations _puts
    cdef list _batches
    cdef bint _in_parts
    cdef long long _held

    @cython.locals(is_first=bint)
    cpdef add(self, HotBatch batch)
    @cython.locals(batches=list, batch=HotBatch, held=list)
    cpdef end(self)
    @cython.locals(batch=HotBatch, answers=bytes)
    cpdef _answer_held(self, list batches, status)
