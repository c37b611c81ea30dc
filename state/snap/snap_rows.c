// SPDX-License-Identifier: Apache-2.0
// state/snap/snap_rows.c -- rows that a sparse table begins with, out of a file
// of ids and values. Each shard reads the file and takes what is its own.
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "proto/table_rows.h"
#include "state/snap/snap.h"

struct snap_rows {
    const struct snap_from *from;
    struct tensorfile *file;
    struct table_file tensors;
    struct rowset *set;
    const struct row_account *account;
    uint32_t dim;
    uint64_t ids[SNAP_RECORDS];
    uint8_t *values; // of as many rows; owned
};

static enum sl_err find_set(struct rowset **out, uint32_t *dim,
                            const struct shard *s, const char *name,
                            struct sl_error *err)
{
    for (size_t i = 0; i < s->plan.table_count; i++)
        if (strcmp(s->plan.tables[i].name, name) == 0) {
            *out = s->tables.sets[i];
            *dim = s->tables.dims[i];
            return SL_OK;
        }
    return sl_fail(err, SL_EINVAL, "the job has no such table");
}

// Reads the next ids, *n of them, from id `at` on.
static enum sl_err snap_rows_read_ids(struct snap_rows *r, uint64_t at,
                                      size_t *n, struct sl_error *err)
{
    *n = (size_t)sl_min(r->tensors.rows - at, SNAP_RECORDS);
    if (r->from->stopped != NULL && r->from->stopped(r->from->arg))
        return sl_fail(err, SL_ECANCELED, "the job needs these rows no longer");
    return tensorfile_read(r->file, r->tensors.ids, at * sizeof(r->ids[0]),
                           r->ids, *n * sizeof(r->ids[0]), err);
}

// Takes memory for all rows of the shard before one of them is read, so that a
// file which does not fit keeps none from other shards meanwhile.
static enum sl_err snap_rows_expect(struct snap_rows *r, struct sl_error *err)
{
    uint64_t own = 0, room = rowset_room(r->set);
    enum sl_err rc = SL_OK;
    size_t n;

    for (uint64_t at = 0; rc == SL_OK && at < r->tensors.rows; at += n) {
        rc = snap_rows_read_ids(r, at, &n, err);
        if (rc == SL_OK)
            own += rowset_own(r->set, n, r->ids);
    }
    if (rc == SL_OK && own > room)
        return sl_fail(err, SL_EINVAL,
                       "%" PRIu64 " of its rows are of this shard, whose part "
                       "of evict.max_rows is %" PRIu64
                       ": submit the job with more",
                       own, room);
    if (rc != SL_OK)
        return rc;
    rc = rowset_expect(r->set, ROWSET_ROWS, own);
    return rc == SL_OK ? SL_OK
                       : sl_prefix(err, row_memory_refuse(r->account, rc, err),
                                   "%" PRIu64 " rows", own);
}

static enum sl_err snap_rows_take(struct snap_rows *r, struct sl_error *err)
{
    size_t bytes = r->dim * sizeof(float), n;
    enum sl_err rc = SL_OK;

    for (uint64_t at = 0; rc == SL_OK && at < r->tensors.rows; at += n) {
        rc = snap_rows_read_ids(r, at, &n, err);
        if (rc != SL_OK || rowset_own(r->set, n, r->ids) == 0)
            continue; // an export has the rows of one shard together
        rc = tensorfile_read(r->file, r->tensors.values, at * bytes, r->values,
                             n * bytes, err);
        if (rc == SL_OK)
            rc = rowset_start(r->set, n, r->ids, r->values, err);
    }
    return rc;
}

enum sl_err snap_rows(struct shard *s, const char *table, struct fs_file *file,
                      uint64_t bytes, const struct snap_from *from,
                      struct sl_error *err)
{
    struct snap_rows *r = sl_calloc(1, sizeof(*r));
    enum sl_err rc = r == NULL ? sl_no_memory(err) : SL_OK;

    if (rc != SL_OK)
        return rc;
    r->from = from;
    r->account = s->tables.account;
    rc = find_set(&r->set, &r->dim, s, table, err);
    if (rc == SL_OK)
        rc = tensorfile_open_read(&r->file, file, bytes, SNAP_HEADER_MAX, err);
    if (rc == SL_OK)
        rc = table_file_find(&r->tensors, r->file, r->dim, err);
    if (rc == SL_OK) {
        r->values = sl_malloc_array(r->dim, SNAP_RECORDS * sizeof(float));
        rc = r->values == NULL ? sl_no_memory(err) : SL_OK;
    }
    if (rc == SL_OK)
        rc = snap_rows_expect(r, err);
    if (rc == SL_OK)
        rc = snap_rows_take(r, err);
    tensorfile_close(r->file);
    sl_free(r->values);
    sl_free(r);
    if (rc == SL_ERANGE || rc == SL_EBUSY)
        rc = SL_ENOMEM;
    return rc == SL_OK ? SL_OK : sl_prefix(err, rc, "table %s", table);
}
