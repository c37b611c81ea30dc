// SPDX-License-Identifier: Apache-2.0
// client/files/table_delta.c -- two sorted tables become the difference.
#include "client/files/table_delta.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "proto/table_rows.h"

#define FIRST_ROOM 1024
#define ROWS_AT_ONCE 1024 // that are copied behind one another

// python/sluice/feed.py computes the same.
static uint64_t row_digest(uint64_t id, const uint8_t *values, size_t bytes)
{
    uint64_t digest = sl_mix64(id);

    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = 0;

        memcpy(&word, values + i,
               bytes - i < sizeof(word) ? bytes - i : sizeof(word));
        digest = sl_mix64(digest ^ word);
    }
    return digest;
}

static void table_sum_add(struct table_sum *sum, const struct table_row *row,
                          uint32_t dim)
{
    sum->rows++;
    sum->digest += row_digest(row->id, row->values, dim * sizeof(float));
}

// Returns `list` with room for one more of 8 bytes each; it may move. NULL: out
// of memory, and `list` is as it was.
static void *delta_reserve(void *list, size_t count, size_t *room)
{
    size_t more = *room != 0 ? *room * 2 : FIRST_ROOM;
    void *grown;

    if (count < *room)
        return list;
    grown = sl_realloc_array(list, more, sizeof(uint64_t));
    if (grown != NULL)
        *room = more;
    return grown;
}

static enum sl_err delta_note_gone(struct table_delta *d, uint64_t id,
                                   struct sl_error *err)
{
    uint64_t *list = delta_reserve(d->gone, d->gone_count, &d->gone_room);

    if (list == NULL)
        return sl_no_memory(err);
    d->gone = list;
    d->gone[d->gone_count++] = id;
    return SL_OK;
}

static enum sl_err delta_note_changed(struct table_delta *d,
                                      const uint8_t *values,
                                      struct sl_error *err)
{
    const uint8_t **list =
        delta_reserve(d->changed, d->changed_count, &d->changed_room);

    if (list == NULL)
        return sl_no_memory(err);
    d->changed = list;
    d->changed[d->changed_count++] = values;
    return SL_OK;
}

// Notes what became of an id; NULL: it has no row there.
static enum sl_err delta_note(struct table_delta *d,
                              const struct table_row *was,
                              const struct table_row *is, struct sl_error *err)
{
    if (is == NULL)
        return delta_note_gone(d, was->id, err);
    if (was != NULL &&
        memcmp(was->values, is->values, d->dim * sizeof(float)) == 0)
        return SL_OK;
    return delta_note_changed(d, is->values, err);
}

static enum sl_err delta_next(struct row_stream *s, struct table_row *row,
                              struct sl_error *err)
{
    if (s != NULL)
        return s->next(s, row, err);
    row->values = NULL;
    return SL_OK;
}

enum sl_err table_delta_make(struct table_delta *d, struct row_stream *old,
                             struct row_stream *new, uint32_t dim,
                             struct sl_error *err)
{
    struct table_row was, is;
    enum sl_err rc = delta_next(old, &was, err);

    d->dim = dim;
    if (rc == SL_OK)
        rc = delta_next(new, &is, err);
    while (rc == SL_OK && (was.values != NULL || is.values != NULL)) {
        bool in_old =
            was.values != NULL && (is.values == NULL || was.hash <= is.hash);
        bool in_new =
            is.values != NULL && (was.values == NULL || is.hash <= was.hash);

        rc = delta_note(d, in_old ? &was : NULL, in_new ? &is : NULL, err);
        if (in_old)
            table_sum_add(&d->before, &was, dim);
        if (in_new)
            table_sum_add(&d->after, &is, dim);
        if (rc == SL_OK && in_old)
            rc = delta_next(old, &was, err);
        if (rc == SL_OK && in_new)
            rc = delta_next(new, &is, err);
    }
    return rc;
}

void table_delta_release(struct table_delta *d)
{
    sl_free(d->changed);
    sl_free(d->gone);
    *d = (struct table_delta){.dim = 0};
}

// ---- the file

// Writes of each changed row its values, or with `id` the id before them.
static enum sl_err delta_write_rows(const struct table_delta *d,
                                    struct tensorfile_writer *file, bool id,
                                    struct sl_error *err)
{
    size_t bytes = id ? sizeof(uint64_t) : d->dim * sizeof(float);
    size_t before = id ? TABLE_RECORD_HEAD : 0;
    uint8_t *space = sl_malloc_array(bytes, ROWS_AT_ONCE);
    enum sl_err rc = space != NULL ? SL_OK : sl_no_memory(err);

    for (size_t i = 0; rc == SL_OK && i < d->changed_count;) {
        size_t k = 0;

        for (; k < ROWS_AT_ONCE && i < d->changed_count; k++, i++)
            memcpy(space + k * bytes, d->changed[i] - before, bytes);
        rc = tensorfile_append(file, space, k * bytes, err);
    }
    sl_free(space);
    return rc;
}

static enum sl_err delta_create(struct tensorfile_writer **out,
                                const struct table_delta *d, const char *path,
                                const struct table_delta_name *name,
                                struct sl_error *err)
{
    char cut[24], dim[24], rows[24], digest[24], from[24];
    const struct tensor_meta meta[] = {
        {"format", "pt"},
        {"sluice.job", name->job},
        {"sluice.cut", cut},
        {"sluice.table", name->table},
        {"sluice.dim", dim},
        {"sluice.rows", rows},
        {"sluice.digest", digest},
        {"sluice.from", from}, // last: a base has none
    };
    struct tensor_info tensors[] = {
        {TABLE_FILE_IDS, TENSOR_U64, 1, {d->changed_count}, 0, 0},
        {TABLE_FILE_VALUES, TENSOR_F32, 2, {d->changed_count, d->dim}, 0, 0},
        {TABLE_DELTA_GONE, TENSOR_U64, 1, {d->gone_count}, 0, 0}, // likewise
    };
    size_t count = SL_COUNT(tensors) - name->base;
    enum sl_err rc = tensorfile_layout(tensors, count, err);

    snprintf(cut, sizeof(cut), "%" PRIu64, name->cut);
    snprintf(dim, sizeof(dim), "%u", d->dim);
    snprintf(rows, sizeof(rows), "%" PRIu64, d->after.rows);
    snprintf(digest, sizeof(digest), "%016" PRIx64, d->after.digest);
    snprintf(from, sizeof(from), "%" PRIu64, name->from);
    return rc == SL_OK
               ? tensorfile_create(out, fs_posix(), path, tensors, count, meta,
                                   SL_COUNT(meta) - name->base, true, err)
               : rc;
}

enum sl_err table_delta_write(const struct table_delta *d, const char *path,
                              const struct table_delta_name *name,
                              uint64_t *bytes, struct sl_error *err)
{
    struct tensorfile_writer *w = NULL;
    enum sl_err rc = delta_create(&w, d, path, name, err);

    // The wider type stands first, and of one type the name decides.
    if (rc == SL_OK && d->gone_count > 0)
        rc = tensorfile_append(w, d->gone, d->gone_count * sizeof(*d->gone),
                               err);
    if (rc == SL_OK)
        rc = delta_write_rows(d, w, true, err);
    if (rc == SL_OK)
        rc = delta_write_rows(d, w, false, err);
    if (rc == SL_OK)
        return tensorfile_finish(w, bytes, err);
    tensorfile_abort(w);
    return rc;
}

// ---- of two cuts

enum sl_err table_delta_of_cuts(struct table_delta *d,
                                struct table_export *before,
                                struct table_export *after, const char *folder,
                                struct sl_error *err)
{
    struct cut_rows old = {.sorted = NULL}, new;
    enum sl_err rc = table_export_fetch(after, folder, err);

    if (rc == SL_OK && before != NULL)
        rc = table_export_fetch(before, folder, err);
    if (rc != SL_OK)
        return rc;
    if (before != NULL)
        cut_rows_init(&old, before);
    cut_rows_init(&new, after);
    rc = table_delta_make(d, before != NULL ? &old.stream : NULL, &new.stream,
                          after->dim, err);
    cut_rows_release(&old);
    cut_rows_release(&new);
    return rc;
}
