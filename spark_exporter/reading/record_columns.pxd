cimport cython

from headrace.protocol.big_endian cimport address_of, copy_bytes, is_equal, load_i32, load_i64, store_bytes
from headrace.protocol.crc32 cimport crc_of, take_crc_function
from headrace.protocol.record_layout cimport (
    BLANK_RECORD, BODY_CRC_AT, BODY_CRC_MASK, BORN_HOST_AT, BORN_TIMESTAMP_AT, COMPRESSED, END_FILE_MIN_BLANK_LENGTH, FLAG_AT, NO_ROOM,
    PHYSICAL_OFFSET_AT, PHYSICAL_OFFSET_END, QUEUE_ID_AT, QUEUE_OFFSET_AT, RECORD_OVERHEAD, TAIL_PREPARED_OFFSET_AT, TAIL_RECONSUME_TIMES_AT,
    TOTAL_SIZE_AT, V4_SIZE, WHOLE, WRONG_PLACE, RecordParts, read_record,
)
from spark_exporter.reading.memory cimport put_bit, put_hex, put_int, put_ipv4, put_long
from spark_exporter.reading.property_columns cimport PropertyColumns

ctypedef unsigned char *_memory
ctypedef const unsigned char *_log_memory

cdef int _END, _MORE, _BLANK, _BAD, _FULL
cdef int _LARGEST_RECORD
cdef int _LONGEST_HOST, _LONGEST_ID, _PORT_SIZE, _TEXT_SLACK, _SLOTS, _MOST_HOSTS
cdef long long _FIRST_MS, _LAST_MS, _EVER

cdef class _Topic:
    cdef readonly bytes name
    cdef readonly bytes text
    cdef readonly bint is_wanted

cdef class RecordColumns:
    cdef object _is_wanted
    cdef long long _first_ms, _end_ms, _most_body_bytes
    cdef bint _with_body, _with_hosts, _inflate
    cdef dict _topics
    cdef dict _hosts
    cdef list _topic_slots, _body_memories
    cdef object _view
    cdef _log_memory _log
    cdef Py_ssize_t _limit
    cdef readonly Py_ssize_t position
    cdef readonly Py_ssize_t rows
    cdef readonly long long records
    cdef readonly long long needed
    cdef readonly str reason
    cdef readonly long long last_store_timestamp
    cdef readonly long long last_physical_offset
    cdef readonly list damaged
    cdef readonly dict buffers
    cdef readonly PropertyColumns properties

    cdef _memory _queue_id, _store_size, _reconsume_times, _flag, _sys_flag, _body_crc
    cdef _memory _queue_offset, _commit_log_offset, _born_timestamp, _store_timestamp, _prepared_offset
    cdef _memory _topic_ends, _topic_text, _offset_id_ends, _offset_id_text, _born_host_ends, _born_host_text, _store_host_ends, _store_host_text
    cdef _memory _body_ends, _body_data, _born_valid
    cdef Py_ssize_t _topic_end, _offset_id_end, _born_host_end, _store_host_end, _body_end, _body_room, _slack
    cdef Py_ssize_t _span

    @cython.locals(answer=int)
    cpdef int decode(self, object view, long long view_offset, Py_ssize_t position, Py_ssize_t stop, long long file_end) except -1

    @cython.locals(answer=int, place=cython.longlong)
    cpdef int decode_gathered(self, object view, Py_ssize_t position, object places, Py_ssize_t number, long long file_end) except -1

    cdef _begin(self, object view, Py_ssize_t position)
    @cython.locals(rows=Py_ssize_t)
    cdef _prepare(self, Py_ssize_t span)
    @cython.locals(rows=Py_ssize_t, text=Py_ssize_t)
    cdef _make_room(self, Py_ssize_t span)
    cdef _memory _new(self, str name, Py_ssize_t size) except NULL
    @cython.locals(known=bytearray, memory=bytearray)
    cdef _memory _take_body_memory(self) except NULL
    cdef _memory _new_bits(self, str name, Py_ssize_t rows) except NULL

    @cython.locals(
        log=_log_memory, limit=Py_ssize_t, physical_offset=cython.longlong, parts=RecordParts, end=Py_ssize_t, born_host_at=Py_ssize_t,
        store_host_length=Py_ssize_t, body_length=Py_ssize_t,
        store_ms=cython.longlong, born_ms=cython.longlong, topic=_Topic, body_crc=int, crc=cython.longlong, plain=bytes, row=Py_ssize_t, text=bytes,
    )
    cdef int _decode_one(self, Py_ssize_t at, long long view_offset, long long file_end) except -1

    @cython.locals(log=_log_memory, room=Py_ssize_t, size=cython.longlong)
    cdef int _look_beyond(self, Py_ssize_t at, long long physical_offset, long long file_end) except -1
    cdef int _bad(self, str reason)
    cdef int _more(self, long long needed)
    cdef int _damage(self, long long physical_offset, long long size, str reason) except -1
    cdef _grow_bodies(self, Py_ssize_t needed)
    @cython.locals(log=_log_memory, slot=Py_ssize_t, topic=_Topic, name=bytes)
    cdef _Topic _find_topic(self, Py_ssize_t at, Py_ssize_t length)
    @cython.locals(port=cython.longlong, stored=bytes, text=bytes)
    cdef Py_ssize_t _put_host(self, _memory data, Py_ssize_t end, Py_ssize_t at, Py_ssize_t length) except -1
