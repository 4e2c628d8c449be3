# One machine load or store each, byte-swapped: never seen half done by another process when it is aligned.
cdef extern from *:
    """
    #ifndef HEADRACE_BIG_ENDIAN
    #define HEADRACE_BIG_ENDIAN
    #include <stdint.h>
    #include <string.h>
    static inline unsigned char *headrace_address_of(PyObject *view) {
        return (unsigned char *)PyMemoryView_GET_BUFFER(view)->buf;
    }
    static inline int16_t headrace_load_short(const unsigned char *data, Py_ssize_t at) {
        uint16_t raw;
        memcpy(&raw, data + at, 2);
        return (int16_t)__builtin_bswap16(raw);
    }
    static inline int32_t headrace_load_int(const unsigned char *data, Py_ssize_t at) {
        uint32_t raw;
        memcpy(&raw, data + at, 4);
        return (int32_t)__builtin_bswap32(raw);
    }
    static inline int64_t headrace_load_long(const unsigned char *data, Py_ssize_t at) {
        uint64_t raw;
        memcpy(&raw, data + at, 8);
        return (int64_t)__builtin_bswap64(raw);
    }
    static inline void headrace_store_int(unsigned char *data, Py_ssize_t at, int32_t value) {
        uint32_t raw = __builtin_bswap32((uint32_t)value);
        memcpy(data + at, &raw, 4);
    }
    static inline void headrace_store_long(unsigned char *data, Py_ssize_t at, int64_t value) {
        uint64_t raw = __builtin_bswap64((uint64_t)value);
        memcpy(data + at, &raw, 8);
    }
    static inline Py_ssize_t headrace_find_byte(const unsigned char *data, int byte, Py_ssize_t start, Py_ssize_t end) {
        const unsigned char *found = (const unsigned char *)memchr(data + start, byte, end - start);
        return found == NULL ? -1 : found - data;
    }
    static inline int headrace_is_equal(const unsigned char *data, Py_ssize_t at, const char *text, Py_ssize_t length) {
        return memcmp(data + at, text, length) == 0;
    }
    static inline PyObject *headrace_copy_bytes(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) {
        return PyBytes_FromStringAndSize((const char *)data + start, end - start);
    }
    #endif
    """
    unsigned char *address_of "headrace_address_of"(object view)
    int load_short "headrace_load_short"(const unsigned char *data, Py_ssize_t at) noexcept nogil
    int load_int "headrace_load_int"(const unsigned char *data, Py_ssize_t at) noexcept nogil
    long long load_long "headrace_load_long"(const unsigned char *data, Py_ssize_t at) noexcept nogil
    void store_int "headrace_store_int"(unsigned char *data, Py_ssize_t at, int value) noexcept nogil
    void store_long "headrace_store_long"(unsigned char *data, Py_ssize_t at, long long value) noexcept nogil
    Py_ssize_t find_byte "headrace_find_byte"(const unsigned char *data, int byte, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    bint is_equal "headrace_is_equal"(const unsigned char *data, Py_ssize_t at, const char *text, Py_ssize_t length) noexcept nogil
    bytes copy_bytes "headrace_copy_bytes"(const unsigned char *data, Py_ssize_t start, Py_ssize_t end)
