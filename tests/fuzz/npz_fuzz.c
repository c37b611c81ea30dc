// SPDX-License-Identifier: Apache-2.0
// npz: a zip file with a member x.npy.
#include "tests/fuzz/array_kit.h"
#include "tests/fuzz/fuzz.h"
#include "tests/harness/roots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct roots *roots = t_roots();
    const char *path = fuzz_file("x.npz", data, size);
    struct sl_error err = SL_ERROR_INIT;
    struct array a;
    enum sl_err rc;

    memset(&a, 0, sizeof(a));
    // What it inflates to, and that turned round; a block to check the CRC
    // with, or to inflate from; the table of members.
    fuzz_budget((6 + 2 * ARRAY_INFLATE_RATIO) * size + ((size_t)4 << 20));
    rc = array_open_npz(&a, roots, path, "x", NULL, &err);
    array_check(rc, &a, &err);
    return 0;
}
