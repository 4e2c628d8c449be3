cimport cython

from headrace.protocol.big_endian cimport address_of
from spark_exporter.reading.memory cimport read_at

ctypedef unsigned char *_memory

@cython.locals(
    data=_memory, room=Py_ssize_t, count=Py_ssize_t, base=cython.longlong, at=Py_ssize_t, place=cython.longlong, length=Py_ssize_t,
    size=Py_ssize_t, done=Py_ssize_t,
)
cpdef tuple gather(int descriptor, object segment, object memory, const long long[::1] places, const int[::1] sizes, Py_ssize_t number)
