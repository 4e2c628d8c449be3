# OpenSSL's SHA-1, called directly: hashlib needs an object and two copies of its state for each hash, and the EVP functions cost more than hashing a
# short message. The library is the one that Python has loaded; without it `load` is false. One signature at a time: calls hold the GIL.
cdef extern from *:
    """
    #ifndef HEADRACE_HMAC_SHA1
    #define HEADRACE_HMAC_SHA1
    #include <dlfcn.h>
    #include <stddef.h>
    /* SHA_CTX of openssl/sha.h, whose headers need not be installed: five words of state, two of length, a block, its fill. */
    typedef struct { unsigned int words[24]; } headrace_sha1_state;
    static struct {
        int (*init)(headrace_sha1_state *);
        int (*update)(headrace_sha1_state *, const void *, size_t);
        int (*final)(unsigned char *, headrace_sha1_state *);
        int (*encode)(unsigned char *, const unsigned char *, int);
        int (*differ)(const void *, const void *, size_t);
        headrace_sha1_state state;
    } headrace_sha1;
    static int headrace_sha1_load(void) {
        void *library;
        if (headrace_sha1.init != NULL)
            return 1;
        library = dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_NOLOAD);
        if (library == NULL)
            library = dlopen("libcrypto.so.1.1", RTLD_LAZY | RTLD_NOLOAD);
        if (library == NULL)
            return 0;
        *(void **)&headrace_sha1.update = dlsym(library, "SHA1_Update");
        *(void **)&headrace_sha1.final = dlsym(library, "SHA1_Final");
        *(void **)&headrace_sha1.encode = dlsym(library, "EVP_EncodeBlock");
        *(void **)&headrace_sha1.differ = dlsym(library, "CRYPTO_memcmp");
        if (headrace_sha1.update == NULL || headrace_sha1.final == NULL || headrace_sha1.encode == NULL || headrace_sha1.differ == NULL)
            return 0;
        *(void **)&headrace_sha1.init = dlsym(library, "SHA1_Init");
        return headrace_sha1.init != NULL;
    }
    static PyObject *headrace_sha1_new_state(const unsigned char *block) {
        headrace_sha1_state state = {{0}};
        if (headrace_sha1_load()) {
            headrace_sha1.init(&state);
            headrace_sha1.update(&state, block, 64);
        }
        return PyBytes_FromStringAndSize((const char *)&state, sizeof state);
    }
    static inline void headrace_sha1_begin(const unsigned char *inner) {
        memcpy(&headrace_sha1.state, inner, sizeof headrace_sha1.state);
    }
    static inline void headrace_sha1_update(const unsigned char *data, Py_ssize_t at, Py_ssize_t length) {
        headrace_sha1.update(&headrace_sha1.state, data + at, (size_t)length);
    }
    static inline void headrace_sha1_finish(const unsigned char *outer, unsigned char *out) {
        unsigned char digest[20];
        headrace_sha1.final(digest, &headrace_sha1.state);
        memcpy(&headrace_sha1.state, outer, sizeof headrace_sha1.state);
        headrace_sha1.update(&headrace_sha1.state, digest, sizeof digest);
        headrace_sha1.final(digest, &headrace_sha1.state);
        headrace_sha1.encode(out, digest, sizeof digest);
    }
    static inline int headrace_sha1_is_same(const unsigned char *expected, const unsigned char *given, Py_ssize_t at) {
        return headrace_sha1.differ(expected, given + at, 28) == 0;
    }
    /* Two hashes in turns, with the SHA instructions of x86-64. */
    typedef struct {
        unsigned int state[5];
        unsigned char last[128];
        const unsigned char *parts[3];  /* what is hashed: values filled up to whole blocks, whole blocks of the body, `last` */
        size_t blocks[3];
        int part;
    } headrace_sha1_lane;
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <cpuid.h>
    #include <immintrin.h>
    static int headrace_sha1_has_two(void) {
        unsigned int a, b, c, d;
        if (!headrace_sha1_load() || !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1))
            return 0;
        return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1;
    }
    #define HEADRACE_EACH for (int i = 0; i < 2; i++)
    #define HEADRACE_FOUR_ROUNDS(number, kind) HEADRACE_EACH { \
        __m128i *w = words[i], word = w[(number) & 3], before = abcd[i]; \
        e[i] = (number) ? _mm_sha1nexte_epu32(e[i], word) : _mm_add_epi32(e[i], word); \
        abcd[i] = _mm_sha1rnds4_epu32(before, e[i], kind); \
        e[i] = before; \
        if ((number) < 16) \
            w[(number) & 3] = _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(word, w[((number) + 1) & 3]), w[((number) + 2) & 3]), w[((number) + 3) & 3]); \
    }
    #define HEADRACE_20_ROUNDS(number, kind) \
        HEADRACE_FOUR_ROUNDS(number, kind) HEADRACE_FOUR_ROUNDS(number + 1, kind) HEADRACE_FOUR_ROUNDS(number + 2, kind) \
        HEADRACE_FOUR_ROUNDS(number + 3, kind) HEADRACE_FOUR_ROUNDS(number + 4, kind)
    __attribute__((target("sha,ssse3,sse4.1")))
    static void headrace_sha1_compress_two(unsigned int *const states[2], const unsigned char *const from[2], size_t blocks) {
        const __m128i big_endian = _mm_set_epi64x(0x0001020304050607LL, 0x08090a0b0c0d0e0fLL);
        __m128i abcd[2], e[2], words[2][4], abcd_before[2], e_before[2];
        size_t at;
        HEADRACE_EACH {
            abcd[i] = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)states[i]), 0x1b);
            e[i] = _mm_set_epi32((int)states[i][4], 0, 0, 0);
        }
        for (at = 0; at < 64 * blocks; at += 64) {
            HEADRACE_EACH {
                abcd_before[i] = abcd[i];
                e_before[i] = e[i];
                for (int j = 0; j < 4; j++)
                    words[i][j] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(from[i] + at + 16 * j)), big_endian);
            }
            HEADRACE_20_ROUNDS(0, 0) HEADRACE_20_ROUNDS(5, 1) HEADRACE_20_ROUNDS(10, 2) HEADRACE_20_ROUNDS(15, 3)
            HEADRACE_EACH {
                e[i] = _mm_sha1nexte_epu32(e[i], e_before[i]);
                abcd[i] = _mm_add_epi32(abcd[i], abcd_before[i]);
            }
        }
        HEADRACE_EACH {
            _mm_storeu_si128((__m128i *)states[i], _mm_shuffle_epi32(abcd[i], 0x1b));
            states[i][4] = (unsigned int)_mm_extract_epi32(e[i], 3);
        }
    }
    #else
    static int headrace_sha1_has_two(void) { return 0; }
    static void headrace_sha1_compress_two(unsigned int *const states[2], const unsigned char *const from[2], size_t blocks) {
        (void)states; (void)from; (void)blocks;
    }
    #endif
    static inline void headrace_sha1_store(unsigned char *to, unsigned int word) {
        to[0] = (unsigned char)(word >> 24); to[1] = (unsigned char)(word >> 16); to[2] = (unsigned char)(word >> 8); to[3] = (unsigned char)word;
    }
    /* Ends the bytes of a hash that began with one block of a key: a one, zeros, and the length in bits. */
    static inline void headrace_sha1_end(headrace_sha1_lane *lane, const unsigned char *from, size_t rest, size_t length) {
        size_t blocks = rest < 56 ? 1 : 2;
        if (rest)
            memcpy(lane->last, from, rest);
        memset(lane->last + rest, 0, 64 * blocks - rest);
        lane->last[rest] = 0x80;
        headrace_sha1_store(lane->last + 64 * blocks - 4, (unsigned int)((64 + length) * 8));  /* frames are below 2**28 bytes */
        lane->parts[2] = lane->last;
        lane->blocks[2] = blocks;
    }
    static void headrace_sha1_begin_lane(
        headrace_sha1_lane *lane, const unsigned char *inner, unsigned char *values, Py_ssize_t size, const unsigned char *body, Py_ssize_t length
    ) {
        size_t fill = (size_t)-size & 63, head;
        memcpy(lane->state, inner, sizeof lane->state);
        if (fill > (size_t)length)
            fill = (size_t)length;
        if (fill)
            memcpy(values + size, body, fill);
        head = (size_t)size + fill;
        lane->part = 0;
        lane->parts[0] = values;
        lane->blocks[0] = head / 64;
        lane->parts[1] = body + fill;
        lane->blocks[1] = ((size_t)length - fill) / 64;
        if (head % 64)  /* then the body has ended */
            headrace_sha1_end(lane, values + head / 64 * 64, head % 64, (size_t)size + (size_t)length);
        else
            headrace_sha1_end(lane, body + fill + lane->blocks[1] * 64, ((size_t)length - fill) % 64, (size_t)size + (size_t)length);
    }
    static inline int headrace_sha1_has_more(headrace_sha1_lane *lane) {
        while (lane->part < 3 && lane->blocks[lane->part] == 0)
            lane->part++;
        return lane->part < 3;
    }
    static void headrace_sha1_hash_two(headrace_sha1_lane lanes[2]) {
        unsigned int idle[5] = {0};
        for (;;) {
            int more[2] = {headrace_sha1_has_more(&lanes[0]), headrace_sha1_has_more(&lanes[1])};
            unsigned int *states[2];
            const unsigned char *from[2];
            size_t blocks = (size_t)-1;
            if (!more[0] && !more[1])
                return;
            for (int i = 0; i < 2; i++) {
                headrace_sha1_lane *lane = &lanes[more[i] ? i : 1 - i];  /* where one has ended, the other is hashed twice */
                states[i] = more[i] ? lane->state : idle;
                from[i] = lane->parts[lane->part];
                if (lane->blocks[lane->part] < blocks)
                    blocks = lane->blocks[lane->part];
            }
            headrace_sha1_compress_two(states, from, blocks);
            for (int i = 0; i < 2; i++)
                if (more[i]) {
                    lanes[i].parts[lanes[i].part] += 64 * blocks;
                    lanes[i].blocks[lanes[i].part] -= blocks;
                }
        }
    }
    static void headrace_sha1_sign_two(
        const unsigned char *inner, const unsigned char *outer, unsigned char *values, Py_ssize_t size, const unsigned char *data, Py_ssize_t at,
        Py_ssize_t length, unsigned char *other_values, Py_ssize_t other_size, Py_ssize_t other_at, Py_ssize_t other_length, unsigned char *out,
        unsigned char *other_out
    ) {
        headrace_sha1_lane lanes[2];
        unsigned char digests[2][20];
        headrace_sha1_begin_lane(&lanes[0], inner, values, size, data + at, length);
        headrace_sha1_begin_lane(&lanes[1], inner, other_values, other_size, data + other_at, other_length);
        headrace_sha1_hash_two(lanes);
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 5; j++)
                headrace_sha1_store(digests[i] + 4 * j, lanes[i].state[j]);
            headrace_sha1_begin_lane(&lanes[i], outer, NULL, 0, digests[i], 20);
        }
        headrace_sha1_hash_two(lanes);
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 5; j++)
                headrace_sha1_store(digests[i] + 4 * j, lanes[i].state[j]);
            headrace_sha1.encode(i ? other_out : out, digests[i], 20);
        }
    }
    #endif
    """
    bint load "headrace_sha1_load"()
    bytes new_state "headrace_sha1_new_state"(const unsigned char *block)
    void begin "headrace_sha1_begin"(const unsigned char *inner)
    void update "headrace_sha1_update"(const unsigned char *data, Py_ssize_t at, Py_ssize_t length)
    void finish "headrace_sha1_finish"(const unsigned char *outer, unsigned char *out)
    bint is_same "headrace_sha1_is_same"(const unsigned char *expected, const unsigned char *given, Py_ssize_t at)
    bint has_two "headrace_sha1_has_two"()
    void sign_two "headrace_sha1_sign_two"(const unsigned char *inner, const unsigned char *outer, unsigned char *values, Py_ssize_t size, const unsigned char *data, Py_ssize_t at, Py_ssize_t length, unsigned char *other_values, Py_ssize_t other_size, Py_ssize_t other_at, Py_ssize_t other_length, unsigned char *out, unsigned char *other_out)
