# The numbers of `__init__.py` beside this file that compiled modules need.

cdef enum:
    ENTRY_SIZE = 20
    ENTRY_PHYSICAL_OFFSET_AT = 0
    ENTRY_RECORD_SIZE_AT = 8
    ENTRY_TAGS_CODE_AT = 12
    ENTRY_TAGS_HASH_AT = 16

    FILLER_SIZE = 0x7FFFFFFF
