# Static functions: each compiled module that uses them has its own.
cdef extern from *:
    """
    #ifndef HEADRACE_SOCKET_CALLS
    #define HEADRACE_SOCKET_CALLS
    #include <errno.h>
    #include <sys/epoll.h>
    #include <sys/socket.h>
    enum { HEADRACE_EVENTS = 256, HEADRACE_RECEIVE_LIMIT = 256 << 10 };
    static inline Py_ssize_t headrace_try_send(int fd, const char *data, Py_ssize_t size) {
        Py_ssize_t sent;
        do
            sent = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        return sent < 0 ? 0 : sent;
    }
    static inline int headrace_wait(int epoll, struct epoll_event *events) {
        int count = epoll_wait(epoll, events, HEADRACE_EVENTS, 0);
        return count < 0 ? 0 : count;
    }
    static inline PyObject *headrace_receive(int fd) {
        static char buffer[HEADRACE_RECEIVE_LIMIT]; /* The GIL is held, and its bytes are copied at once. */
        Py_ssize_t size;
        do
            size = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
        while (size < 0 && errno == EINTR);
        if (size < 0 && errno == EAGAIN)
            Py_RETURN_NONE;
        if (size < 0)
            return PyErr_SetFromErrno(PyExc_OSError);
        return PyBytes_FromStringAndSize(buffer, size);
    }
    static inline int headrace_fd_of(struct epoll_event event) { return event.data.fd; }
    static inline int headrace_has_ended(struct epoll_event event) {
        return (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    }
    #endif
    """
    cdef struct epoll_event:
        pass
    enum:
        EVENTS "HEADRACE_EVENTS"
        RECEIVE_LIMIT "HEADRACE_RECEIVE_LIMIT"

    Py_ssize_t headrace_try_send(int fd, const char *data, Py_ssize_t size) noexcept
    int wait "headrace_wait"(int epoll, epoll_event *events) noexcept
    int fd_of "headrace_fd_of"(epoll_event event) noexcept
    bint has_ended "headrace_has_ended"(epoll_event event) noexcept
    bytes receive "headrace_receive"(int fd)

cdef inline Py_ssize_t try_send(int fd, bytes data):
    return headrace_try_send(fd, data, len(data))

cdef inline bint can_receive() noexcept:
    return True
