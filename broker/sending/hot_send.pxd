# The types of hot_send.py.
cimport cython

from broker.header_scan cimport BAD, HeaderScan, bytes_pointer
from broker.sending.send_answers cimport SendAnswers
from broker.sending.stored_properties cimport StoredProperties
from broker.signed_frame cimport SignedFrame, SigningKey
from headrace.protocol.big_endian cimport copy_bytes, is_equal, load_i32, load_u16, load_u32
from headrace.protocol.crc32 cimport crc_of, take_crc_function
from headrace.protocol.record_layout cimport (
    BATCH_BODY_AT, BATCH_BODY_LENGTH_AT, BATCH_ENTRY_OVERHEAD, BATCH_FLAG_AT, BODY_CRC_MASK, BORN_HOST_V6, HOSTLESS_SIZE, MAX_PROPERTIES_LENGTH,
    STORE_HOST_V6, TRANSACTION_MASK, V4_SIZE, VALUE_END,
)
from store.commit_log.append cimport CommitLogAppender, TopicQueues

cdef int _PROPERTY_SIZE
cdef int _PARTIAL, _OTHER, _SCANNED, _NO_FILE, _ONEWAY, _HOST_V6_BITS, _BATCH_LIMIT, _MALFORMED
cdef int _TOPIC, _QUEUE_ID, _SYS_FLAG, _BORN_TIMESTAMP, _FLAG, _PROPERTIES, _RECONSUME_TIMES, _BATCH, _ACCESS_KEY, _SIGNATURE
cdef class HotTopic:
    cdef readonly bytes key
    cdef readonly str name
    cdef long long requests_in
    cdef long long messages_in
    cdef long long bytes_in
    cdef readonly TopicQueues queues
    cdef public int queue_count
    cdef public int sys_flag
    cdef object rules
    cdef bytes access_key
    cdef SigningKey signing_key

cdef class SendPath:
    cdef readonly CommitLogAppender appender
    cdef dict _topics
    cdef HotTopic _last
    cdef list _counted
    cdef bytes _store_host
    cdef int _store_flag
    cdef public Py_ssize_t body_limit
    cdef SendAnswers _answers
    cdef StoredProperties _stored
    cdef HeaderScan _scan, _next
    cdef bint _has_next, _is_second
    cdef SignedFrame _signed
    cdef public bint writeable
    cdef readonly int stopped_at
    cdef readonly Py_ssize_t most_properties
    cdef readonly long long requests_in
    # What the messages of the frame in hand have in common.
    cdef bint _is_batch
    cdef TopicQueues _queues
    cdef int _queue_id
    cdef int _sys_flag
    cdef long long _born_timestamp
    cdef bytes _born_host
    cdef int _reconsume_times
    cdef readonly long long stored_bytes
    # Of a batch.
    cdef long long _batch_bytes
    cdef long long _longest

    @cython.locals(topic=HotTopic)
    cpdef list take_counts(self)
    cpdef bytes take_answers(self)
    cpdef bytes take_held(self)
    @cython.locals(p=bytes_pointer, end=Py_ssize_t, scan=HeaderScan)
    cpdef Py_ssize_t take(self, bytes data, Py_ssize_t position, bytes born_host, int born_flag, object access=*) except -1
    @cython.locals(scan=HeaderScan, stored=StoredProperties, start=Py_ssize_t, length=Py_ssize_t, topic=HotTopic, queue_id=cython.longlong, sys_flag=cython.longlong, born=cython.longlong, flag=cython.longlong, reconsume_times=cython.longlong, queue_offset=cython.longlong, count=cython.longlong)
    cdef int _append(self, bytes_pointer p, bytes born_host, int born_flag, object access) except -1
    @cython.locals(scan=HeaderScan, start=Py_ssize_t, length=Py_ssize_t, known=bytes, key=SigningKey)
    cdef bint _may_send(self, bytes_pointer p, HotTopic topic, object access) except -1
    cpdef long long count_batch(self, bytes body) except -2
    @cython.locals(born_flag=int)
    cpdef long long put_batch(self, bytes topic, int queue_id, int sys_flag, long long born_timestamp, bytes born_host, int reconsume_times, bytes properties, bytes body) except -2
    @cython.locals(end=Py_ssize_t, count=cython.longlong, length=cython.longlong, few=cython.longlong)
    cdef long long _measure(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t body_length) except -2
    @cython.locals(end=Py_ssize_t, added=Py_ssize_t, alike=cython.longlong, total=cython.longlong, count=cython.longlong, at=Py_ssize_t, length=cython.longlong, stored=StoredProperties, flag=cython.longlong, message=Py_ssize_t, written=Py_ssize_t)
    cdef long long _put_batch(self, bytes_pointer p, Py_ssize_t body, Py_ssize_t body_length) except -2
    @cython.locals(offset=cython.longlong)
    cdef int _put(self, bytes_pointer p, Py_ssize_t body, Py_ssize_t body_length, int flag, bytes_pointer properties, Py_ssize_t properties_length) except -2
