# The C functions of eventfds: one system call each, without Python objects.
cdef extern from *:
    """
    #ifndef HEADRACE_EVENTFDS
    #define HEADRACE_EVENTFDS
    #include <errno.h>
    #include <sys/eventfd.h>
    static inline int headrace_ring_eventfd(int fd) {
        if (eventfd_write(fd, 1) == 0) {
            return 0;
        }
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    static inline int headrace_drain_eventfd(int fd) {
        eventfd_t count;
        if (eventfd_read(fd, &count) == 0) {
            return 1;
        }
        if (errno == EAGAIN) {
            return 0;
        }
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    #endif
    """
    int ring_eventfd "headrace_ring_eventfd"(int fd) except -1
    bint drain_eventfd "headrace_drain_eventfd"(int fd) except -1
