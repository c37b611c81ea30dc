// SPDX-License-Identifier: Apache-2.0
// npz: a zip file with a member x.npy, and ids for its rows in t.npy and
// t.offsets.npy.
#include "common/base/buf.h"
#include "tests/fuzz/array_kit.h"
#include "tests/fuzz/fuzz.h"
#include "tests/harness/roots.h"
#include "worker/data/data_ids.h"
#include "worker/data/ids.h"

#define ROWS_MOST 64

static void check_ids(const char *path, uint64_t rows)
{
    struct id_array ids, zero;
    struct sl_error err = SL_ERROR_INIT;
    struct buf scratch = BUF_INIT, bag = BUF_INIT;
    enum sl_err rc;

    memset(&ids, 0, sizeof(ids));
    zero = ids;
    rc = id_array_open(&ids, t_roots(), path, "t", rows, NULL, &err);
    if (rc != SL_OK) {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(memcmp(&ids, &zero, sizeof(ids)) == 0);
        return;
    }
    for (uint64_t i = 0; i < rows && i < ROWS_MOST; i++) {
        uint64_t n = i % 2 == 0 ? i / 2 : rows - 1 - i / 2;

        FUZZ_TRUE(id_array_read(&ids, n, &scratch, &bag, NULL) == SL_OK);
        FUZZ_TRUE(bag.len <= IDS_BAG_MAX * sizeof(uint64_t));
    }
    buf_release(&scratch);
    buf_release(&bag);
    id_array_release(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct roots *roots = t_roots();
    const char *path = fuzz_file("x.npz", data, size);
    struct sl_error err = SL_ERROR_INIT;
    struct array a = {.rows = 0};
    uint64_t rows;
    enum sl_err rc;

    // What it inflates to, and that turned round; a block to check the CRC
    // with, or to inflate from; the table of members.
    fuzz_budget((6 + 2 * ARRAY_INFLATE_RATIO) * size + ((size_t)4 << 20));
    rc = array_open_npz(&a, roots, path, "x", NULL, &err);
    rows = a.rows; // 0 of one that was refused
    array_check(rc, &a, &err);
    if (rc == SL_OK)
        check_ids(path, rows);
    return 0;
}
