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
    static inline long long headrace_load_i8(const unsigned char *data, Py_ssize_t at) {
        return (int8_t)data[at];
    }
    static inline long long headrace_load_u16(const unsigned char *data, Py_ssize_t at) {
        uint16_t raw;
        memcpy(&raw, data + at, 2);
        return __builtin_bswap16(raw);
    }
    static inline long long headrace_load_i16(const unsigned char *data, Py_ssize_t at) {
        return (int16_t)headrace_load_u16(data, at);
    }
    static inline long long headrace_load_u32(const unsigned char *data, Py_ssize_t at) {
        uint32_t raw;
        memcpy(&raw, data + at, 4);
        return __builtin_bswap32(raw);
    }
    static inline long long headrace_load_i32(const unsigned char *data, Py_ssize_t at) {
        return (int32_t)headrace_load_u32(data, at);
    }
    static inline long long headrace_load_i64(const unsigned char *data, Py_ssize_t at) {
        uint64_t raw;
        memcpy(&raw, data + at, 8);
        return (int64_t)__builtin_bswap64(raw);
    }
    static inline void headrace_store_i16(unsigned char *data, Py_ssize_t at, long long value) {
        uint16_t raw = __builtin_bswap16((uint16_t)value);
        memcpy(data + at, &raw, 2);
    }
    static inline void headrace_store_i32(unsigned char *data, Py_ssize_t at, long long value) {
        uint32_t raw = __builtin_bswap32((uint32_t)value);
        memcpy(data + at, &raw, 4);
    }
    static inline void headrace_store_i64(unsigned char *data, Py_ssize_t at, long long value) {
        uint64_t raw = __builtin_bswap64((uint64_t)value);
        memcpy(data + at, &raw, 8);
    }
    static inline void headrace_store_bytes(unsigned char *data, Py_ssize_t at, const unsigned char *source, Py_ssize_t start, Py_ssize_t length) {
        memcpy(data + at, source + start, length);
    }
    static inline Py_ssize_t headrace_find_byte(const unsigned char *data, int byte, Py_ssize_t start, Py_ssize_t end) {
        const unsigned char *found = start < end ? (const unsigned char *)memchr(data + start, byte, end - start) : NULL;
        return found == NULL ? -1 : found - data;
    }
    static inline int headrace_is_equal(const unsigned char *data, Py_ssize_t at, const unsigned char *text, Py_ssize_t text_at, Py_ssize_t length) {
        const unsigned char *one = data + at, *other = text + text_at;
        uint64_t begin, other_begin, end, other_end;
        if (length < 8 || length > 16)
            return memcmp(one, other, length) == 0;
        /* Names, mostly: two loads that overlap cost less than a call. */
        memcpy(&begin, one, 8);
        memcpy(&other_begin, other, 8);
        memcpy(&end, one + length - 8, 8);
        memcpy(&other_end, other + length - 8, 8);
        return begin == other_begin && end == other_end;
    }
    static inline Py_ssize_t headrace_copy_until(unsigned char *to, Py_ssize_t to_at, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, int byte) {
        const uint64_t ones = 0x0101010101010101ULL, highest = 0x8080808080808080ULL;
        const unsigned char *from = data + start;
        Py_ssize_t length = end - start, at = 0;
        to += to_at;
        for (; length - at >= 8; at += 8) {
            uint64_t raw, other;
            memcpy(&raw, from + at, 8);
            memcpy(to + at, &raw, 8);
            other = raw ^ ones * (unsigned char)byte;
            other = (other - ones) & ~other & highest;  // the lowest bit that is set is in the first byte that equals
            if (other)
                return at + (__builtin_ctzll(other) >> 3);
        }
        for (; at < length && from[at] != byte; at++)
            to[at] = from[at];
        return at;
    }
    static inline Py_ssize_t headrace_equal_length(const unsigned char *data, Py_ssize_t at, const unsigned char *text, Py_ssize_t text_at, Py_ssize_t length) {
        const unsigned char *one = data + at, *other = text + text_at;
        Py_ssize_t same = 0;
        for (; length - same >= 8; same += 8) {
            uint64_t raw, other_raw;
            memcpy(&raw, one + same, 8);
            memcpy(&other_raw, other + same, 8);
            if (raw != other_raw)  // the lowest bits are the first byte
                return same + (__builtin_ctzll(raw ^ other_raw) >> 3);
        }
        while (same < length && one[same] == other[same])
            same++;
        return same;
    }
    static inline PyObject *headrace_copy_bytes(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) {
        return PyBytes_FromStringAndSize((const char *)data + start, end - start);
    }
    static inline void headrace_prefetch(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) {
        for (; start < end; start += 64)
            __builtin_prefetch(data + start);
    }
    #endif
    """
    unsigned char *address_of "headrace_address_of"(object view)
    long long load_i8 "headrace_load_i8"(const unsigned char *data, Py_ssize_t at) noexcept nogil
    long long load_u16 "headrace_load_u16"(const unsigned char *data, Py_ssize_t at) noexcept nogil
    long long load_i16 "headrace_load_i16"(const unsigned char *data, Py_ssize_t at) noexcept nogil
    long long load_u32 "headrace_load_u32"(const unsigned char *data, Py_ssize_t at) noexcept nogil
    long long load_i32 "headrace_load_i32"(const unsigned char *data, Py_ssize_t at) noexcept nogil
    long long load_i64 "headrace_load_i64"(const unsigned char *data, Py_ssize_t at) noexcept nogil
    void store_i16 "headrace_store_i16"(unsigned char *data, Py_ssize_t at, long long value) noexcept nogil
    void store_i32 "headrace_store_i32"(unsigned char *data, Py_ssize_t at, long long value) noexcept nogil
    void store_i64 "headrace_store_i64"(unsigned char *data, Py_ssize_t at, long long value) noexcept nogil
    void store_bytes "headrace_store_bytes"(unsigned char *data, Py_ssize_t at, const unsigned char *source, Py_ssize_t start, Py_ssize_t length) noexcept nogil
    Py_ssize_t find_byte "headrace_find_byte"(const unsigned char *data, int byte, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    bint is_equal "headrace_is_equal"(const unsigned char *data, Py_ssize_t at, const unsigned char *text, Py_ssize_t text_at, Py_ssize_t length) noexcept nogil
    Py_ssize_t copy_until "headrace_copy_until"(unsigned char *to, Py_ssize_t to_at, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, int byte) noexcept nogil
    Py_ssize_t equal_length "headrace_equal_length"(const unsigned char *data, Py_ssize_t at, const unsigned char *text, Py_ssize_t text_at, Py_ssize_t length) noexcept nogil
    void prefetch "headrace_prefetch"(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    bytes copy_bytes "headrace_copy_bytes"(const unsigned char *data, Py_ssize_t start, Py_ssize_t end)
