# The types of agreement.py.
cimport cython

from headrace.protocol.ascii_hash cimport as_int, hash_ascii
from headrace.protocol.big_endian cimport address_of, copy_bytes, find_byte, is_equal, load_i32, load_i64
from headrace.protocol.crc32 cimport crc_of, take_crc_function
from headrace.protocol.record_layout cimport (
    BODY_CRC_AT, BODY_CRC_MASK, FLAG_AT, INNER_BATCH, QUEUE_ID_AT, QUEUE_OFFSET_AT, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK,
    WHOLE, PropertyParts, RecordParts, read_property, read_record,
)
from store.inspect.key_entries cimport KeyEntries
from store.inspect.queue_entries cimport QueueEntries

cdef long long _HASH_MAX

cdef class Agreement:
    cdef dict _queues
    cdef KeyEntries _keys
    cdef long long _first_key_offset, _last_key_offset
    cdef const unsigned char *_log
    cdef readonly long long last

    # where the properties that matter begin and end in the log; 0: missing
    cdef long long _tags, _tags_end
    cdef long long _key_words, _key_words_end
    cdef long long _unique_key, _unique_key_end

    @cython.locals(parts=RecordParts)
    cpdef long long walk(self, object view, long long position, long long stop, long long limit, long long file_start) except -1

    @cython.locals(found=PropertyParts)
    cdef bint _find_properties(self, long long at, long long end) except -1

    @cython.locals(queue=QueueEntries, tags_code=cython.longlong)
    cdef QueueEntries _find_queue(self, RecordParts parts, long long position, long long physical_offset)

    @cython.locals(file=cython.longlong, number=cython.longlong)
    cdef bint _take_keys(self, RecordParts parts, long long physical_offset) except -1

    @cython.locals(at=cython.longlong, end=cython.longlong, store_timestamp=cython.longlong)
    cdef bint _are_keys(self, RecordParts parts, long long physical_offset) except -1

    @cython.locals(value=cython.longlong)
    cdef bint _is_key(self, RecordParts parts, long long at, long long end, long long physical_offset, long long store_timestamp) except -1
