// SPDX-License-Identifier: Apache-2.0
// npy, from a file and from memory: both must say the same.
#include "tests/fuzz/array_kit.h"
#include "tests/fuzz/fuzz.h"
#include "tests/harness/roots.h"

static void same(const struct array *a, const struct array *b)
{
    FUZZ_TRUE(a->type == b->type && a->swap == b->swap && a->nd == b->nd);
    FUZZ_TRUE(memcmp(a->dim, b->dim, a->nd * sizeof(a->dim[0])) == 0);
    FUZZ_TRUE(a->bytes == b->bytes);
    FUZZ_TRUE(memcmp(a->memory, b->memory, a->bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct roots *roots = t_roots();
    const char *path = fuzz_file("x.npy", data, size);
    struct sl_error err = SL_ERROR_INIT, err2 = SL_ERROR_INIT;
    struct array a, b;
    enum sl_err rc, rc2;

    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    fuzz_budget(2 * size + (80u << 10)); // turned round: twice
    rc = array_open_npy(&a, roots, path, &err);
    fuzz_budget(2 * size + 4096);
    rc2 = array_npy_in_memory(&b, "memory", data, size, &err2);
    FUZZ_TRUE(rc == rc2);
    if (size >= 2 && data[0] == 0x80 && data[1] <= 5) // refused with a hint
        FUZZ_TRUE(rc == SL_ENOTSUP && strstr(err.text, "pickle") != NULL);
    if (rc == SL_OK)
        same(&a, &b);
    array_check(rc, &a, &err);
    array_check(rc2, &b, &err2);
    return 0;
}
