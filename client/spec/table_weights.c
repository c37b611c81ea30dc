// SPDX-License-Identifier: Apache-2.0
// client/spec/table_weights.c -- does a file have rows of a table?
#include "client/spec/table_weights.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "proto/table_rows.h"

struct table_weights_file {
    Sluice__V1__TableFile message; // borrows from `weights` and the spec
    struct weights weights;
};

// Returns the table that a text begins with, and the file's path behind it. A
// name may have a '=' of its own.
static const Sluice__V1__TableSpec *
table_said(const Sluice__V1__JobSpec *spec, const char *said, const char **path)
{
    for (size_t i = 0; i < spec->model->n_tables; i++) {
        const Sluice__V1__TableSpec *t = spec->model->tables[i];
        size_t n = strlen(t->name);

        if (strncmp(said, t->name, n) == 0 && said[n] == '=') {
            *path = said + n + 1;
            return t;
        }
    }
    return NULL;
}

static enum sl_err check_most(const Sluice__V1__TableSpec *t, uint64_t rows,
                              struct sl_error *err)
{
    uint64_t most = t->evict == NULL ? 0 : t->evict->max_rows;

    if (most == 0 || rows <= most)
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "it has %" PRIu64
                   " rows, more than evict.max_rows, %" PRIu64,
                   rows, most);
}

static enum sl_err table_weights_check(const struct weights *w, struct fs *fs,
                                       const Sluice__V1__TableSpec *t,
                                       struct sl_error *err)
{
    char place[TENSOR_PLACE_TEXT];
    struct table_file rows;
    struct tensorfile *f = NULL;
    enum sl_err rc = tensorfile_open(&f, fs, w->path, 0, err);

    if (rc != SL_OK)
        return rc;
    rc = table_file_find(&rows, f, t->dim, err);
    if (rc == SL_OK)
        rc = check_most(t, rows.rows, err);
    if (rc == SL_OK &&
        tensor_not_finite(rows.values, tensorfile_data(f, rows.values), place))
        rc = sl_fail(err, SL_EINVAL,
                     "%s%s: export the rows from a checkpoint with finite ones",
                     TABLE_FILE_VALUES, place);
    tensorfile_close(f);
    return rc == SL_OK
               ? SL_OK
               : sl_prefix(err, rc, "%s: rows of table %s", w->path, t->name);
}

static enum sl_err table_weights_add(struct table_weights *out, struct fs *fs,
                                     const char *said,
                                     const Sluice__V1__JobSpec *spec,
                                     struct sl_error *err)
{
    struct table_weights_file *f = &out->files[out->count];
    const char *path = NULL;
    const Sluice__V1__TableSpec *t = table_said(spec, said, &path);
    enum sl_err rc;

    if (t == NULL)
        return sl_fail(
            err, SL_EINVAL,
            "--table-weights %s: say TABLE=FILE, with a table of the "
            "model; 'sluice validate FILE' lists them",
            said);
    for (size_t i = 0; i < out->count; i++)
        if (strcmp(out->list[i]->table, t->name) == 0)
            return sl_fail(err, SL_EINVAL,
                           "--table-weights %s: table %s has a file already",
                           said, t->name);
    out->count++; // its weights are released with the rest
    rc = weights_name(&f->weights, path, err);
    if (rc == SL_OK)
        rc = table_weights_check(&f->weights, fs, t, err);
    if (rc == SL_OK)
        rc = weights_seal(&f->weights, fs, err);
    sluice__v1__table_file__init(&f->message);
    f->message.table = t->name;
    f->message.file = &f->weights.file;
    out->list[out->count - 1] = &f->message;
    return rc;
}

enum sl_err table_weights_read(struct table_weights *out, struct fs *fs,
                               const char *const *said, size_t count,
                               const Sluice__V1__JobSpec *spec,
                               struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    *out = (struct table_weights){0};
    if (count == 0)
        return SL_OK;
    out->list = sl_calloc(count, sizeof(out->list[0]));
    out->files = sl_calloc(count, sizeof(out->files[0]));
    if (out->list == NULL || out->files == NULL)
        rc = sl_no_memory(err);
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = table_weights_add(out, fs, said[i], spec, err);
    if (rc != SL_OK)
        table_weights_release(out);
    return rc;
}

void table_weights_release(struct table_weights *t)
{
    for (size_t i = 0; i < t->count; i++)
        weights_release(&t->files[i].weights);
    sl_free(t->list);
    sl_free(t->files);
    *t = (struct table_weights){0};
}
