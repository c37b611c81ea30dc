// SPDX-License-Identifier: Apache-2.0
// IDX files, plain and gzipped.
#include "tests/fuzz/array_kit.h"
#include "tests/fuzz/fuzz.h"
#include "tests/harness/roots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct roots *roots = t_roots();
    const char *path = fuzz_file("x.idx", data, size);
    struct sl_error err = SL_ERROR_INIT;
    struct array a = {.rows = 0};
    enum sl_err rc;

    // The file, and what it may inflate to.
    fuzz_budget((4 + ARRAY_INFLATE_RATIO) * size + 65536);
    rc = array_open_idx(&a, roots, path, NULL, &err);
    array_check(rc, &a, &err);
    return 0;
}
