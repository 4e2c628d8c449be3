cdef extern from *:
    """
    #ifndef HEADRACE_EXPORT_MEMORY
    #define HEADRACE_EXPORT_MEMORY
    #include <stdint.h>
    #include <errno.h>
    #include <string.h>
    #include <unistd.h>
    static inline void export_put_int(unsigned char *data, Py_ssize_t index, int32_t value) {
        memcpy(data + 4 * index, &value, 4);
    }
    static inline void export_put_long(unsigned char *data, Py_ssize_t index, int64_t value) {
        memcpy(data + 8 * index, &value, 8);
    }
    static inline void export_put_bit(unsigned char *data, Py_ssize_t index) {
        data[index >> 3] |= (unsigned char)(1u << (index & 7));
    }
    static inline void export_put_hex(unsigned char *data, Py_ssize_t at, const unsigned char *source, Py_ssize_t start, Py_ssize_t length) {
        static const char digits[] = "0123456789ABCDEF";
        for (Py_ssize_t i = 0; i < length; i++) {
            data[at + 2 * i] = digits[source[start + i] >> 4];
            data[at + 2 * i + 1] = digits[source[start + i] & 15];
        }
    }
    static inline unsigned char *export_put_number(unsigned char *at, uint32_t number) {
        unsigned char digits[10];
        int count = 0;
        do
            digits[count++] = '0' + number % 10;
        while (number /= 10);
        while (count)
            *at++ = digits[--count];
        return at;
    }
    static inline Py_ssize_t export_put_ipv4(unsigned char *data, Py_ssize_t at, const unsigned char *source, Py_ssize_t start, uint32_t port) {
        unsigned char *end = data + at;
        for (int i = 0; i < 4; i++) {
            end = export_put_number(end, source[start + i]);
            *end++ = i < 3 ? '.' : ':';
        }
        return export_put_number(end, port) - (data + at);
    }
    static inline int export_is_ascii(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) {
        uint64_t word, seen = 0;
        for (; start + 8 <= end; start += 8) {
            memcpy(&word, data + start, 8);
            seen |= word;
        }
        for (; start < end; start++)
            seen |= data[start];
        return (seen & 0x8080808080808080ULL) == 0;
    }
    static inline Py_ssize_t export_read_at(int descriptor, unsigned char *data, Py_ssize_t at, Py_ssize_t length, long long place) {
        Py_ssize_t done = 0, count;
        while (done < length) {
            count = pread(descriptor, data + at + done, length - done, place + done);
            if (count < 0 && errno == EINTR)
                continue;
            if (count < 0)
                return -errno;
            if (count == 0)
                break;
            done += count;
        }
        return done;
    }
    #endif
    """
    void put_int "export_put_int"(unsigned char *data, Py_ssize_t index, int value) noexcept nogil
    void put_long "export_put_long"(unsigned char *data, Py_ssize_t index, long long value) noexcept nogil
    void put_bit "export_put_bit"(unsigned char *data, Py_ssize_t index) noexcept nogil
    void put_hex "export_put_hex"(unsigned char *data, Py_ssize_t at, const unsigned char *source, Py_ssize_t start, Py_ssize_t length) noexcept nogil
    Py_ssize_t put_ipv4 "export_put_ipv4"(unsigned char *data, Py_ssize_t at, const unsigned char *source, Py_ssize_t start, unsigned int port) noexcept nogil
    bint is_ascii "export_is_ascii"(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    Py_ssize_t read_at "export_read_at"(int descriptor, unsigned char *data, Py_ssize_t at, Py_ssize_t length, long long place) noexcept
