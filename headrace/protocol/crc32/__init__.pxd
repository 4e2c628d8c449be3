cdef extern from *:
    """
    #ifndef HEADRACE_CRC32
    #define HEADRACE_CRC32
    #include <stdint.h>
    typedef uint32_t (*headrace_crc_function)(uint32_t, const unsigned char *, uint64_t);
    static uint32_t headrace_crc_table[256];
    static uint32_t headrace_slow_crc(uint32_t crc, const unsigned char *data, uint64_t length) {
        crc = ~crc;
        while (length--)
            crc = headrace_crc_table[(crc ^ *data++) & 255] ^ crc >> 8;
        return ~crc;
    }
    static headrace_crc_function headrace_crc = headrace_slow_crc;
    static inline void headrace_take_crc_function(size_t address) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; bit++)
                crc = crc & 1 ? 0xEDB88320u ^ crc >> 1 : crc >> 1;
            headrace_crc_table[i] = crc;
        }
        if (address)
            headrace_crc = (headrace_crc_function)address;
    }
    static inline int32_t headrace_crc_of(const unsigned char *data, Py_ssize_t at, Py_ssize_t length) {
        return (int32_t)headrace_crc(0, data + at, (uint64_t)length);
    }
    #endif
    """
    void take_crc_function "headrace_take_crc_function"(size_t address) noexcept
    int crc_of "headrace_crc_of"(const unsigned char *data, Py_ssize_t at, Py_ssize_t length) noexcept nogil
