# The types of append.py, for itself and for broker/sending/hot_send.py, which calls it without going through Python.

cimport cython

from headrace.protocol.big_endian cimport store_bytes, store_i16, store_i32, store_i64
from headrace.protocol.record_layout cimport (
    BLANK_MAGIC, BODY_CRC_AT, BORN_HOST_AT, BORN_TIMESTAMP_AT, END_FILE_MIN_BLANK_LENGTH, FLAG_AT, HOSTLESS_SIZE, MAGIC_AT, MESSAGE_MAGIC,
    PHYSICAL_OFFSET_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT, STORE_TIMESTAMP_SIZE, SYS_FLAG_AT, TAIL_BODY_LENGTH_AT, TAIL_PREPARED_OFFSET_AT,
    TAIL_RECONSUME_TIMES_AT, TAIL_SIZE, TOTAL_SIZE_AT,
)
from store.commit_log.stage cimport Stage

ctypedef const unsigned char* _bytes_pointer

cdef int _LIMIT_AHEAD
cdef int _LIMIT_LOW

cdef unsigned char *_address_of(unsigned char[::1] view) noexcept

cdef class TopicQueues:
    cdef readonly bytes topic
    cdef readonly object name
    cdef long long[::1] next_offsets
    cdef readonly Py_ssize_t count
    cpdef long long next_offset(self, Py_ssize_t queue_id) except -1
    @cython.locals(known=Py_ssize_t)
    cpdef advance(self, Py_ssize_t queue_id, long long offset)

cdef class CommitLogAppender:
    cdef object _publisher
    cdef object _open_file
    cdef object _populate
    cdef Stage _stage
    cdef long long[::1] _words
    cdef Py_ssize_t _allocated_word
    cdef long long _file_size
    cdef unsigned char[::1] _view
    cdef long long _view_start
    cdef long long _file_start
    cdef long long _file_end
    cdef readonly long long wrote_offset
    cdef long long _published_offset
    cdef long long _append_limit
    cdef readonly long long store_timestamp
    cdef long long _wrote_timestamp
    cdef readonly dict queues
    cpdef begin(self, long long now_ms)
    cpdef bint publish(self) except -1
    cpdef bint ensure(self, long long size)
    @cython.locals(start=cython.longlong, within=cython.longlong, blank=cython.longlong, at=Py_ssize_t, out='unsigned char *')
    cdef bint _roll(self) except -1
    cpdef raise_ahead(self)
    @cython.locals(before=cython.longlong, limit=cython.longlong)
    cdef _raise_limit(self, long long end)
    @cython.locals(queues=TopicQueues)
    cpdef TopicQueues queues_of(self, bytes topic)
    @cython.locals(
        topic=bytes,
        topic_length=Py_ssize_t,
        born_length=Py_ssize_t,
        store_length=Py_ssize_t,
        size=cython.longlong,
        physical_offset=cython.longlong,
        queue_offset=cython.longlong,
        at=Py_ssize_t,
        out='unsigned char *',
    )
    cdef long long put(
        self,
        TopicQueues queues,
        int queue_id,
        int flag,
        int sys_flag,
        long long born_timestamp,
        bytes born_host,
        bytes store_host,
        int reconsume_times,
        long long prepared_transaction_offset,
        _bytes_pointer body,
        Py_ssize_t body_length,
        int body_crc,
        _bytes_pointer properties,
        Py_ssize_t properties_length,
        bint queued,
    ) except -2
