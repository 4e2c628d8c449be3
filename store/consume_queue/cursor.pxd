cimport cython

from headrace.protocol.big_endian cimport address_of, store_i32, store_i64
from headrace.protocol.consume_queue_layout cimport ENTRY_PHYSICAL_OFFSET_AT, ENTRY_RECORD_SIZE_AT, ENTRY_SIZE, ENTRY_TAGS_CODE_AT
from ipc.queue_rows cimport QueueRows

cdef long long QUEUE_OFFSET_MAX

cdef class QueueCursor:
    cdef readonly bytes topic
    cdef readonly long long queue_id
    cdef public long long row
    cdef public long long first_start
    cdef public long long min_position
    cdef public long long position
    cdef public long long limit
    cdef public long long reserved
    cdef public long long max_physical_offset
    cdef public bint is_changed
    cdef public bint is_used
    cdef public object window
    cdef object _view
    cdef unsigned char *_entries
    cdef long long _window_start

    cpdef attach(self, object window, long long limit)
    cpdef detach(self)
    cpdef bint try_put(self, long long physical_offset, int size, long long tags_code, long long queue_offset) except -1
    @cython.locals(at=Py_ssize_t)
    cpdef write(self, long long physical_offset, int size, long long tags_code)

@cython.locals(cursor=QueueCursor, rows=list)
cpdef list publish_bounds(list changed, QueueRows bounds)
