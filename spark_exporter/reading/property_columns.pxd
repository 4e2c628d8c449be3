cimport cython

from headrace.protocol.big_endian cimport address_of, copy_bytes, is_equal, store_bytes
from headrace.protocol.record_layout cimport PropertyParts, read_property
from spark_exporter.reading.memory cimport is_ascii, put_bit, put_int

ctypedef unsigned char *_memory
ctypedef const unsigned char *_log_memory

cdef int _MANY_PROPERTIES

cdef class PropertyColumns:
    cdef dict _buffers
    cdef bint _all_properties
    cdef readonly Py_ssize_t pairs
    cdef _memory _msg_id_ends, _msg_id_text, _keys_ends, _keys_text, _tags_ends, _tags_text
    cdef _memory _real_topic_ends, _real_topic_text, _retry_topic_ends, _retry_topic_text
    cdef _memory _map_ends, _name_ends, _name_text, _value_ends, _value_text
    cdef _memory _msg_id_valid, _keys_valid, _tags_valid, _real_topic_valid, _retry_topic_valid
    cdef Py_ssize_t _msg_id_end, _keys_end, _tags_end, _real_topic_end, _retry_topic_end, _name_end, _value_end

    cdef make_room(self, Py_ssize_t rows, Py_ssize_t text)
    cdef begin(self, Py_ssize_t rows)
    @cython.locals(
        raw=bytes, text=bytes, first_pair=Py_ssize_t, names_from=Py_ssize_t, values_from=Py_ssize_t, start=Py_ssize_t,
        msg_id=Py_ssize_t, msg_id_end=Py_ssize_t, keys=Py_ssize_t, keys_end=Py_ssize_t, tags=Py_ssize_t, tags_end=Py_ssize_t,
        real=Py_ssize_t, real_end=Py_ssize_t, retry=Py_ssize_t, retry_end=Py_ssize_t, found=PropertyParts, length=Py_ssize_t,
        is_promoted=bint,
    )
    cdef Py_ssize_t put(self, _log_memory log, Py_ssize_t row, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int end_row(self, Py_ssize_t row) except -1
    cdef _memory _new(self, str name, Py_ssize_t size) except NULL
    cdef _memory _new_bits(self, str name, Py_ssize_t rows) except NULL
    @cython.locals(pair=Py_ssize_t, name_end=Py_ssize_t)
    cdef bint _has_name(self, _log_memory log, Py_ssize_t first_pair, Py_ssize_t name_at, Py_ssize_t at, Py_ssize_t length) except -1
    cdef int _end_of_name(self, Py_ssize_t pair) except -1
    @cython.locals(name=str, value=str, text=bytes)
    cdef _put_pairs(self, Py_ssize_t row, dict properties)
