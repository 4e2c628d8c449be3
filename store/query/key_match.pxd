cimport cython

from headrace.protocol.big_endian cimport address_of, copy_bytes, is_equal
from headrace.protocol.record_layout cimport BLANK_RECORD, WHOLE, PropertyParts, RecordParts, read_property, read_record

@cython.locals(
    data="const unsigned char *", parts=RecordParts, found=PropertyParts, at=Py_ssize_t, end=Py_ssize_t,
    keys_at=Py_ssize_t, keys_end=Py_ssize_t, unique_at=Py_ssize_t, unique_end=Py_ssize_t,
)
cpdef bytes record_with_key(object view, long long physical_offset, str topic, str key)

cdef str _text(const unsigned char *data, Py_ssize_t at, Py_ssize_t end)
