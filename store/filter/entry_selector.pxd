# The types of entry_selector.py.
cimport cython

from headrace.protocol.big_endian cimport address_of, load_i32, load_i64
from store.commit_log.record_check cimport check_record
from headrace.protocol.consume_queue_layout cimport ENTRY_PHYSICAL_OFFSET_AT, ENTRY_RECORD_SIZE_AT, ENTRY_SIZE, ENTRY_TAGS_CODE_AT, FILLER_SIZE
from store.filter.program cimport Program

cdef int _TRUE
cdef long long _ADDRESS_MAX

cdef class EntrySelector:
    cdef object _view_around
    cdef long long _file_size
    cdef readonly list unreadable

    @cython.locals(
        selected=bytearray, reads_units=bint, program=Program, max_count="long long", in_memory_from="long long", memory_bytes="long long",
        memory_count="long long", disk_bytes="long long", disk_count="long long", entries="const unsigned char *", end="long long",
        file_size="long long", file_start="long long", next_file="long long", taken_bytes="long long", count="long long", at="long long",
        physical_offset="long long", size=int, is_old=bint, code="long long", position="long long", limit="long long", matches=bint,
    )
    cpdef tuple select(self, object entries_view, object message_filter, object read_unit, object limits, long long wrote_offset)
