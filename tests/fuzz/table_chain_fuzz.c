// SPDX-License-Identifier: Apache-2.0
// A snapshot and the file below it, as if the hash that names it were right:
// hardly a mutation's is. Live records are those that the files have, each
// once, and a place is found in one step as it is in many.
//
//     u32: bytes of the snapshot; the snapshot; the file below
#include "plan/tables.h"
#include "proto/table_chain.h"
#include "tests/fuzz/fuzz.h"

// The linker sends table_chain.c here (--wrap).
enum sl_err __wrap_sha256_file_is(struct fs *fs, const char *path,
                                  const uint8_t want[SHA256_BYTES],
                                  const char *source, struct sl_error *err);
enum sl_err __wrap_sha256_file_is(struct fs *fs, const char *path,
                                  const uint8_t want[SHA256_BYTES],
                                  const char *source, struct sl_error *err)
{
    return fs_exists(fs, path) ? SL_OK
                               : sl_fail(err, SL_ENOENT, "%s is missing", path);
}

// Returns the records that the files above `segment` have of an id, or 1 if
// they say that it is gone.
static bool is_named_above(const struct table_chain *c,
                           const struct table_live *l, size_t segment,
                           unsigned part, uint64_t id)
{
    for (size_t i = 0; i < segment; i++) {
        const struct tensorfile *f = i == 0 ? c->top : c->below[i - 1];
        const struct tensor_info *t = l->segment[i].tensor;
        const struct tensor_info *gone =
            tensorfile_find(f, part == 0 ? "#rows_gone.t" : "#waiting_gone.t");

        for (uint64_t k = 0; k < t->shape[0]; k++)
            if (table_id(tensorfile_data(f, t) + k * t->shape[1], 0) == id)
                return true;
        for (uint64_t k = 0; k < gone->shape[0]; k++)
            if (table_id(tensorfile_data(f, gone), k) == id)
                return true;
    }
    return false;
}

static uint64_t records_of(const struct table_live *l)
{
    uint64_t records = 0;

    for (size_t i = 0; i < l->count; i++)
        records += l->segment[i].tensor->shape[0];
    return records;
}

static void walk(const struct table_chain *c, const struct table_live *l,
                 unsigned part)
{
    struct table_live_at at = {0}, found;
    uint64_t live = 0, all = 0;
    struct table_run run;

    while (table_live_next(l, &at, 3, &run)) {
        FUZZ_TRUE(run.n >= 1 && run.n <= 3);
        FUZZ_TRUE(run.first + run.n <= run.segment->tensor->shape[0]);
        found = table_live_seek(l, live);
        FUZZ_TRUE(table_live_next(l, &found, 1, &run) && run.n == 1);
        FUZZ_TRUE(!is_named_above(c, l, (size_t)(run.segment - l->segment),
                                  part, table_id(table_run_data(&run), 0)));
        live += at.record - run.first;
    }
    FUZZ_TRUE(live == l->records);
    for (size_t i = 0; i < l->count; i++)
        for (uint64_t k = 0; k < l->segment[i].tensor->shape[0]; k++)
            all +=
                !is_named_above(c, l, i, part,
                                table_id(tensorfile_data(l->segment[i].file,
                                                         l->segment[i].tensor) +
                                             k * l->record_bytes,
                                         0));
    FUZZ_TRUE(all == live);
}

static void read_chain(const struct tensorfile *top, bool mapped)
{
    struct sl_error err = SL_ERROR_INIT;
    struct table_chain c = {0};
    struct table_live l;
    enum sl_err rc =
        table_chain_open(&c, top, fs_posix(), fuzz_folder(), mapped, &err);

    if (rc != SL_OK) {
        fuzz_refused(rc, &err);
        return;
    }
    for (unsigned part = 0; part < TABLE_PARTS; part++) {
        rc = table_live_init(&l, &c, part, "t", &err);
        if (rc != SL_OK) {
            fuzz_refused(rc, &err);
            continue;
        }
        if (mapped && records_of(&l) < 200)
            walk(&c, &l, part);
        table_live_release(&l);
    }
    table_chain_close(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_error err = SL_ERROR_INIT;
    struct tensorfile *top = NULL;
    uint32_t n;
    enum sl_err rc;

    if (size < sizeof(n))
        return 0;
    memcpy(&n, data, sizeof(n));
    data += sizeof(n);
    size -= sizeof(n);
    n = n < size ? n : (uint32_t)size;
    fuzz_file("below", data + n, size - n);
    rc = tensorfile_parse(&top, "top", data, n, 0, &err);
    if (rc != SL_OK) {
        fuzz_refused(rc, &err);
        return 0;
    }
    read_chain(top, true);
    read_chain(top, false);
    tensorfile_close(top);
    return 0;
}
