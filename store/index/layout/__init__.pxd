# The numbers of `__init__.py` beside this file that compiled modules need.

cdef enum:
    HEADER_SIZE = 40
    BEGIN_TIMESTAMP = 0
    END_TIMESTAMP = 8
    BEGIN_PHYSICAL_OFFSET = 16
    END_PHYSICAL_OFFSET = 24
    SLOT_COUNT = 32

    SLOT_SIZE = 4

    ENTRY_SIZE = 20
    ENTRY_KEY_HASH_AT = 0
    ENTRY_PHYSICAL_OFFSET_AT = 4
    ENTRY_TIME_DIFF_AT = 12
    ENTRY_PREVIOUS_AT = 16
    TIME_DIFF_MAX = 0x7FFFFFFF
