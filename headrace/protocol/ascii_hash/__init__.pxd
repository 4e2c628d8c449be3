cdef extern from *:
    """
    #ifndef HEADRACE_ASCII_HASH
    #define HEADRACE_ASCII_HASH
    #include <stdint.h>
    static inline long long headrace_hash_ascii(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long long value) {
        uint32_t hash = (uint32_t)value;
        unsigned char seen = 0;
        for (; at < end; at++) {
            hash = hash * 31 + data[at];
            seen |= data[at];
        }
        return seen & 0x80 ? -1 : (long long)hash;
    }
    static inline int headrace_as_int(long long value) {
        return (int32_t)(uint32_t)value;
    }
    #endif
    """
    long long hash_ascii "headrace_hash_ascii"(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long long value) noexcept nogil
    int as_int "headrace_as_int"(long long value) noexcept nogil
