cimport cython

from headrace.protocol.ascii_hash cimport as_int, hash_ascii
from headrace.protocol.big_endian cimport address_of, copy_bytes, find_byte, is_equal, load_i32, load_i64
from headrace.protocol.record_layout cimport (
    BLANK_RECORD, QUEUE_ID_AT, QUEUE_OFFSET_AT, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, WHOLE,
    PropertyParts, RecordParts, read_property, read_record,
)
from store.consume_queue.cursor cimport QueueCursor
from store.index.cursor cimport IndexCursor

cdef int _END, _BLANK, _BAD
cdef int _QUEUE_IDS_KEPT
cdef long long QUEUE_OFFSET_MAX
cdef long long _NEVER
cdef long long _HASH_MAX

cdef class _Topic:
    cdef readonly bytes name
    cdef readonly unsigned int key_hash
    cdef readonly long long usual_from
    cdef readonly list queues
    @cython.locals(cursor=QueueCursor)
    cpdef keep(self, object cursor)

cdef class LogWalk:
    cdef object _queue_writer
    cdef list _changed
    cdef object _index_writer
    cdef object _put_unusual
    cdef bint _all_unusual
    cdef bint _has_multi_dispatch
    cdef dict _topics, _deleted
    cdef _Topic _topic
    cdef IndexCursor _index
    cdef object _view
    cdef const unsigned char *_log
    cdef readonly long long position
    cdef readonly str bad_reason
    cdef readonly long long store_timestamp
    cdef readonly long long records

    # where the properties that matter begin and end in the log; 0: missing
    cdef Py_ssize_t _tags, _tags_end
    cdef Py_ssize_t _keys, _keys_end
    cdef Py_ssize_t _unique_key, _unique_key_end
    cdef bint _is_multi_dispatched

    @cython.locals(at=cython.longlong, answer=int)
    cpdef int walk(self, object view, long long file_start, long long position, long long stop, long long limit, long long most) except -1

    @cython.locals(
        parts=RecordParts, size=cython.longlong, sys_flag=int, end=cython.longlong,
        physical_offset=cython.longlong, store_timestamp=cython.longlong, queue_id=int, queue_offset=cython.longlong, transaction=int,
        topic=_Topic, cursor=QueueCursor, was_changed=bint, tags_code=cython.longlong,
    )
    cdef int _dispatch(self, long long file_start, long long at, long long limit) except -1

    cdef int _bad(self, str reason)
    @cython.locals(topic=_Topic, name=bytes)
    cdef _Topic _find_topic(self, Py_ssize_t at, Py_ssize_t length)

    @cython.locals(found=PropertyParts)
    cdef _find_properties(self, Py_ssize_t at, Py_ssize_t end)

    @cython.locals(value=cython.longlong)
    cdef long long _tags_code(self) except? -1

    @cython.locals(present=cython.longlong, at=Py_ssize_t, end=Py_ssize_t)
    cdef _put_keys(self, _Topic topic, long long physical_offset, long long store_timestamp)

    @cython.locals(value=cython.longlong, index=IndexCursor)
    cdef _put_key(self, _Topic topic, Py_ssize_t at, Py_ssize_t end, long long physical_offset, long long store_timestamp)
