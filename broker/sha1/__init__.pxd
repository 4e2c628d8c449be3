# OpenSSL's SHA-1, called directly: hashlib needs an object and two copies of its state for each digest, which cost more than hashing a short message.
# The library is the one that Python has loaded; without it `load` is false. One digest at a time: calls hold the GIL.
cdef extern from *:
    """
    #ifndef HEADRACE_SHA1
    #define HEADRACE_SHA1
    #include <dlfcn.h>
    #include <stddef.h>
    static struct {
        void *context;
        int (*init)(void *, const void *, void *);
        int (*update)(void *, const void *, size_t);
        int (*final)(void *, unsigned char *, unsigned int *);
    } headrace_sha1;
    static int headrace_sha1_load(void) {
        void *library;
        void *(*make)(void);
        const void *(*sha1)(void);
        if (headrace_sha1.context != NULL)
            return 1;
        library = dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_NOLOAD);
        if (library == NULL)
            library = dlopen("libcrypto.so.1.1", RTLD_LAZY | RTLD_NOLOAD);
        if (library == NULL)
            return 0;
        *(void **)&make = dlsym(library, "EVP_MD_CTX_new");
        *(void **)&sha1 = dlsym(library, "EVP_sha1");
        *(void **)&headrace_sha1.init = dlsym(library, "EVP_DigestInit_ex");
        *(void **)&headrace_sha1.update = dlsym(library, "EVP_DigestUpdate");
        *(void **)&headrace_sha1.final = dlsym(library, "EVP_DigestFinal_ex");
        if (make == NULL || sha1 == NULL || headrace_sha1.init == NULL || headrace_sha1.update == NULL || headrace_sha1.final == NULL)
            return 0;
        headrace_sha1.context = make();
        if (headrace_sha1.context != NULL && headrace_sha1.init(headrace_sha1.context, sha1(), NULL) != 1)
            headrace_sha1.context = NULL;
        return headrace_sha1.context != NULL;
    }
    static inline int headrace_sha1_begin(void) {
        return headrace_sha1.init(headrace_sha1.context, NULL, NULL) == 1;
    }
    static inline int headrace_sha1_update(const unsigned char *data, Py_ssize_t at, Py_ssize_t length) {
        return headrace_sha1.update(headrace_sha1.context, data + at, (size_t)length) == 1;
    }
    static inline int headrace_sha1_end(unsigned char *out) {
        return headrace_sha1.final(headrace_sha1.context, out, NULL) == 1;
    }
    #endif
    """
    bint load "headrace_sha1_load"()
    bint begin "headrace_sha1_begin"()
    bint update "headrace_sha1_update"(const unsigned char *data, Py_ssize_t at, Py_ssize_t length)
    bint end "headrace_sha1_end"(unsigned char *out)
