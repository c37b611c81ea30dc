// SPDX-License-Identifier: Apache-2.0
// A file of rows that a table begins with, as anybody may submit it. What is
// taken is of the shard, finite, and no more than the file has.
#include <math.h>

#include "common/base/mem.h"
#include "plan/tables.h"
#include "proto/table_rows.h"
#include "state/snap/snap.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/psserver/kit.h"

enum { DIM = 3 };

// kit.c's, without the harness and its main.
void t_assert_failed(const char *what, const char *file, int line)
{
    fuzz_broken(what, file, line);
}

static void check_rows(struct shard *s, uint64_t bytes)
{
    struct rowset *set = s->tables.sets[0];
    size_t stride = rowset_stride(set), n;
    uint8_t *record = sl_malloc(stride);
    uint64_t rows = 0;

    FUZZ_TRUE(record != NULL);
    rowset_freeze(set, 0);
    while (rowset_walk(set, ROWSET_ROWS, 1, record, &n)) {
        struct row_header h;
        float row[DIM];

        if (n == 0)
            continue;
        memcpy(&h, record, sizeof(h));
        memcpy(row, record + sizeof(h), sizeof(row));
        FUZZ_TRUE(rowset_own(set, 1, &h.id) == 1);
        FUZZ_TRUE(h.changed == 0 && h.score == 1);
        for (unsigned k = 0; k < DIM; k++)
            FUZZ_TRUE(isfinite(row[k]));
        rows++;
    }
    rowset_thaw(set);
    FUZZ_TRUE(rows * (sizeof(uint64_t) + DIM * sizeof(float)) <= bytes);
    sl_free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t bias[] = {9, 0};
    const struct snap_from from = {.fs = fs_posix(), .store = ""};
    struct sl_error err = SL_ERROR_INIT;
    struct fs_file *file = NULL;
    struct shard *s;
    struct kit k;
    enum sl_err rc;

    kit_clear(&k);
    kit_optimizer(&k, "sgd", 1);
    kit_variable(&k, "bias", bias);
    kit_table(&k, "users", DIM)->max_rows = 4000;
    s = kit_shard(&k);
    FUZZ_TRUE(fs_open(fs_posix(), &file, fuzz_file("rows", data, size), FS_READ,
                      NULL) == SL_OK);
    rc = snap_rows(s, "users", file, size, &from, &err);
    if (rc == SL_OK)
        check_rows(s, size);
    else
        fuzz_refused(rc, &err);
    fs_close(file);
    shard_unref(s);
    return 0;
}
