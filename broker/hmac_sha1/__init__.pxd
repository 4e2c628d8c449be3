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
    #endif
    """
    bint load "headrace_sha1_load"()
    bytes new_state "headrace_sha1_new_state"(const unsigned char *block)
    void begin "headrace_sha1_begin"(const unsigned char *inner)
    void update "headrace_sha1_update"(const unsigned char *data, Py_ssize_t at, Py_ssize_t length)
    void finish "headrace_sha1_finish"(const unsigned char *outer, unsigned char *out)
    bint is_same "headrace_sha1_is_same"(const unsigned char *expected, const unsigned char *given, Py_ssize_t at)
