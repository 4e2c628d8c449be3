cdef extern from *:
    """
    #ifndef HEADRACE_DIRECT_SEND
    #define HEADRACE_DIRECT_SEND
    #include <errno.h>
    #include <sys/socket.h>
    static inline Py_ssize_t headrace_try_send(int fd, const char *data, Py_ssize_t size) {
        Py_ssize_t sent;
        do
            sent = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        return sent < 0 ? 0 : sent;
    }
    #endif
    """
    Py_ssize_t headrace_try_send(int fd, const char *data, Py_ssize_t size) noexcept

cdef inline Py_ssize_t try_send(int fd, bytes data):
    return headrace_try_send(fd, data, len(data))
