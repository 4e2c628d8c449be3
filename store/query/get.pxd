# The types of get.py.
cimport cython

from store.consume_queue.published_file cimport PublishedFile
from store.query.gather cimport Gatherer

cdef long long _ENTRIES_BYTES, _WARM_WINDOW

cdef class MessageGetter:
    cdef object _sources, _limits, _queues, _log, _control, _config, _unreadable, _one_byte
    cdef long long _entries_per_file
    cdef readonly Gatherer gatherer

    @cython.locals(found=PublishedFile, wrote_offset='long long', gatherer=Gatherer, is_far_behind='bint')
    cpdef tuple try_gather(self, str topic, long long queue_id, long long offset, long long max_count, set codes)
    @cython.locals(in_memory_from='long long', gatherer=Gatherer)
    cdef bint _gather(
        self, str topic, long long queue_id, long long offset, object view, Py_ssize_t begin, Py_ssize_t end,
        long long max_count, set codes, long long wrote_offset,
    ) except -1
    cdef bint _may_fault(self, long long physical_offset, long long wrote_offset) except -1
