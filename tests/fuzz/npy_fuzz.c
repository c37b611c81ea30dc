// SPDX-License-Identifier: Apache-2.0
// npy, from a file and out of a stream that is inflated: both must say the
// same.
#include "tests/fuzz/array_kit.h"
#include "tests/fuzz/fuzz.h"
#include "tests/harness/roots.h"
#include "worker/data/data_inflate.h"

static void same(const struct array *a, const struct array *b)
{
    FUZZ_TRUE(a->type == b->type && a->swap == b->swap && a->nd == b->nd);
    FUZZ_TRUE(memcmp(a->dim, b->dim, a->nd * sizeof(a->dim[0])) == 0);
    FUZZ_TRUE(a->bytes == b->bytes);
    FUZZ_TRUE(memcmp(a->memory, b->memory, a->bytes) == 0);
}

#define BLOCK 65535 // most that a stored block of deflate holds

// The same bytes as a deflate stream, as they are.
static size_t stored(uint8_t *to, const uint8_t *from, size_t n)
{
    uint8_t *at = to;

    do {
        size_t k = n < BLOCK ? n : BLOCK;

        *at++ = n <= BLOCK;
        *at++ = (uint8_t)k;
        *at++ = (uint8_t)(k >> 8);
        *at++ = (uint8_t)~k;
        *at++ = (uint8_t)(~k >> 8);
        memcpy(at, from, k);
        at += k;
        from += k;
        n -= k;
    } while (n > 0);
    return (size_t)(at - to);
}

static enum sl_err inflated(struct array *out, const uint8_t *data, size_t size,
                            struct sl_error *err)
{
    uint8_t *packed = malloc(size + 5 * (size / BLOCK + 1));
    struct inflate_source from = {.form = INFLATE_RAW};
    struct inflater *s = NULL;
    enum sl_err rc;

    FUZZ_TRUE(packed != NULL);
    from.bytes = stored(packed, data, size);
    FUZZ_TRUE(roots_file(t_roots(), &from.file,
                         fuzz_file("x.deflate", packed, from.bytes),
                         NULL) == SL_OK);
    free(packed);
    rc = inflater_new(&s, &from, err);
    if (rc == SL_OK)
        rc = array_npy_inflated(out, "stream", s, size, err);
    inflater_free(s);
    fs_close(from.file);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct roots *roots = t_roots();
    const char *path = fuzz_file("x.npy", data, size);
    struct sl_error err = SL_ERROR_INIT, err2 = SL_ERROR_INIT;
    struct array a = {.rows = 0}, b = {.rows = 0};
    enum sl_err rc, rc2;

    fuzz_budget(2 * size + (80u << 10)); // turned round: twice
    rc = array_open_npy(&a, roots, path, NULL, &err);
    fuzz_budget(3 * size + (80u << 10));
    rc2 = inflated(&b, data, size, &err2);
    FUZZ_TRUE(rc == rc2);
    if (size >= 2 && data[0] == 0x80 && data[1] <= 5) // refused with a hint
        FUZZ_TRUE(rc == SL_ENOTSUP && strstr(err.text, "pickle") != NULL);
    if (rc == SL_OK)
        same(&a, &b);
    array_check(rc, &a, &err);
    array_check(rc2, &b, &err2);
    return 0;
}
