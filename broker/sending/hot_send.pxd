# The types of send.py.
cimport cython

from broker.connections.json_scan cimport BAD, bytes_pointer, parse_number
from headrace.protocol.big_endian cimport copy_bytes, find_byte, load_i32, load_u16, load_u32
from headrace.protocol.record_layout cimport (
    BATCH_BODY_AT, BATCH_BODY_LENGTH_AT, BATCH_ENTRY_OVERHEAD, BATCH_FLAG_AT, BODY_CRC_MASK, BORN_HOST_V6, HOSTLESS_SIZE, MAX_PROPERTIES_LENGTH,
    NAME_END, STORE_HOST_V6, TRANSACTION_MASK, V4_SIZE, VALUE_END,
)
from store.commit_log.append cimport CommitLogAppender, TopicQueues

cdef int _PARTIAL, _OTHER, _NO_FILE, _ANSWER_ROOM, _ONEWAY, _HOST_V6_BITS, _FRAME_LIMIT, _BATCH_LIMIT, _MALFORMED, _COPIED
cdef int _TOPIC, _QUEUE_ID, _SYS_FLAG, _BORN_TIMESTAMP, _FLAG, _PROPERTIES, _RECONSUME_TIMES, _BATCH
cdef bytes _HEX

cdef int _hex_digit(int byte) noexcept
@cython.locals(digits=int, rest=cython.longlong, end=Py_ssize_t)
cdef Py_ssize_t _put_number(unsigned char[::1] out, Py_ssize_t at, long long value) noexcept
cdef void _copy(unsigned char[::1] out, Py_ssize_t at, bytes_pointer source, Py_ssize_t start, Py_ssize_t length) noexcept
cdef void _copy_within(unsigned char[::1] out, Py_ssize_t at, unsigned char[::1] source, Py_ssize_t start, Py_ssize_t length) noexcept
@cython.locals(i=Py_ssize_t)
cdef bint _is(unsigned char[::1] source, Py_ssize_t at, Py_ssize_t length, bytes_pointer word, Py_ssize_t word_length) noexcept

cdef class HotTopic:
    cdef readonly str name
    cdef long long requests_in
    cdef long long messages_in
    cdef long long bytes_in
    cdef readonly TopicQueues queues
    cdef public int queue_count
    cdef public int sys_flag

cdef class SendPath:
    cdef readonly CommitLogAppender appender
    cdef object _crc32
    cdef dict _topics
    cdef list _counted
    cdef bytes _store_host
    cdef int _store_flag
    cdef bytes _cluster_property
    cdef public Py_ssize_t body_limit
    cdef bint _hold
    cdef bytes _answer_before_id
    cdef bytes _id_before_offset
    cdef bytes _tail
    cdef public bint writeable
    cdef readonly int stopped_at
    cdef readonly long long requests_in
    cdef unsigned char[::1] _properties
    cdef unsigned char[::1] _unescaped
    cdef unsigned char[::1] _out
    cdef Py_ssize_t _out_length
    cdef unsigned char[::1] _held
    cdef Py_ssize_t _held_length
    cdef unsigned char[::1] _ids
    cdef Py_ssize_t _ids_length
    # The frame in hand: places in the buffer.
    cdef Py_ssize_t _value_start[26]
    cdef Py_ssize_t _value_length[26]
    cdef long long _opaque
    cdef long long _flag
    cdef Py_ssize_t _properties_length
    cdef bint _wait
    cdef bint _is_batch
    # What its messages have in common.
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
    @cython.locals(p=bytes_pointer, end=Py_ssize_t, length=cython.longlong, header_length=cython.longlong, header=Py_ssize_t, body=Py_ssize_t, body_length=Py_ssize_t)
    cpdef Py_ssize_t take(self, bytes data, Py_ssize_t position, bytes born_host, int born_flag) except -1
    @cython.locals(letter=int, seen=int, stop=Py_ssize_t, name=int, name_length=Py_ssize_t, start=Py_ssize_t, number=cython.longlong)
    cdef bint _scan(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t end) noexcept
    @cython.locals(letter=int, stop=Py_ssize_t, slashes=Py_ssize_t)
    cdef Py_ssize_t _scan_fields(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t end) noexcept
    @cython.locals(at=Py_ssize_t, length=Py_ssize_t, end=Py_ssize_t, raw='unsigned char[::1]', stored='unsigned char[::1]', size=Py_ssize_t, byte=int, high=int, low=int, written=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, separator=Py_ssize_t, name_length=Py_ssize_t, first=int, is_stored=bint, cluster=bytes)
    cdef bint _store_properties(self, bytes_pointer p) except -1
    @cython.locals(at=Py_ssize_t, i=Py_ssize_t)
    cdef bint _is_repeated(self, unsigned char[::1] stored, Py_ssize_t written, unsigned char[::1] raw, Py_ssize_t start, Py_ssize_t name_length) noexcept
    @cython.locals(start=Py_ssize_t, length=Py_ssize_t, topic=HotTopic, queue_id=cython.longlong, sys_flag=cython.longlong, born=cython.longlong, flag=cython.longlong, reconsume_times=cython.longlong, queue_offset=cython.longlong, count=cython.longlong)
    cdef int _append(self, bytes_pointer p, bytes data, Py_ssize_t body, Py_ssize_t body_length, bytes born_host, int born_flag) except -1
    cpdef long long count_batch(self, bytes body) except -2
    @cython.locals(length=Py_ssize_t, born_flag=int)
    cpdef long long put_batch(self, bytes topic, int queue_id, int sys_flag, long long born_timestamp, bytes born_host, int reconsume_times, bytes properties, bytes body) except -2
    @cython.locals(end=Py_ssize_t, count=cython.longlong, length=cython.longlong)
    cdef long long _measure(self, bytes_pointer p, Py_ssize_t at, Py_ssize_t body_length) except -2
    @cython.locals(end=Py_ssize_t, added=Py_ssize_t, alike=cython.longlong, total=cython.longlong, count=cython.longlong, at=Py_ssize_t, length=cython.longlong, stored='unsigned char[::1]', flag=cython.longlong, message=Py_ssize_t, written=Py_ssize_t)
    cdef long long _put_batch(self, bytes_pointer p, bytes data, Py_ssize_t body, Py_ssize_t body_length) except -2
    @cython.locals(crc=cython.longlong, offset=cython.longlong)
    cdef int _put(self, bytes_pointer p, bytes data, Py_ssize_t body, Py_ssize_t body_length, int flag, unsigned char[::1] properties, Py_ssize_t properties_length) except -2
    @cython.locals(size=Py_ssize_t)
    cdef _make_room_for_ids(self, Py_ssize_t count)
    @cython.locals(before=bytes, length=Py_ssize_t, at=Py_ssize_t, out='unsigned char[::1]', shift=int)
    cdef _note_id(self, long long physical_offset)
    @cython.locals(held=bint, at=Py_ssize_t, out='unsigned char[::1]', grown='unsigned char[::1]', before=bytes, after=bytes, needed=Py_ssize_t, frame=Py_ssize_t, length=Py_ssize_t, opaque=cython.longlong)
    cdef _answer(self, long long queue_offset, long long queue_id)
