# The numbers of `__init__.py` beside this file that compiled modules need.

cdef enum:
    FRAME_MAX_LENGTH = 16777216
    LENGTH_SIZE = 4
    HEAD_SIZE = 8
