// SPDX-License-Identifier: Apache-2.0
// client/files/feed_rows.c -- sorted files merged, of which a later one has the
// last word on an id.
//
// The order of ids in the files is not checked here: what it would do to the
// rows changes their digest, which table_feed_add compares.
#include "client/files/feed_rows.h"

#include "common/base/mem.h"
#include "plan/tables.h"
#include "proto/table_rows.h"

// Ids of a file, in rising order of hashes.
struct feed_ids {
    const uint8_t *at;
    uint64_t next, count; // the next one is number `next`
    uint64_t id, hash;    // of the next one
};

struct feed_source {
    struct tensorfile *file; // owned
    struct feed_ids changed, gone;
    const uint8_t *values; // of `changed`
};

static void feed_ids_look(struct feed_ids *ids)
{
    if (ids->next == ids->count)
        return;
    ids->id = table_id(ids->at, ids->next);
    ids->hash = table_hash(ids->id);
}

static void feed_ids_pass(struct feed_ids *ids, uint64_t hash)
{
    if (ids->next < ids->count && ids->hash == hash) {
        ids->next++;
        feed_ids_look(ids);
    }
}

// ---- opening

static void feed_ids_set(struct feed_ids *ids, const struct tensorfile *file,
                         const struct tensor_info *t)
{
    *ids =
        (struct feed_ids){.at = tensorfile_data(file, t), .count = t->shape[0]};
    feed_ids_look(ids);
}

// Finds the ids of a delta that have no row any more.
static enum sl_err feed_source_gone(struct feed_source *source, uint64_t count,
                                    struct sl_error *err)
{
    const struct tensor_info *t =
        tensorfile_find(source->file, TABLE_DELTA_GONE);

    if (t == NULL || t->dtype != TENSOR_U64 || t->rank != 1 ||
        t->shape[0] != count)
        return sl_fail(err, SL_ECORRUPT, "%s: %llu are right", TABLE_DELTA_GONE,
                       (unsigned long long)count);
    feed_ids_set(&source->gone, source->file, t);
    return SL_OK;
}

// Finds the tensors of a file that is open.
static enum sl_err feed_source_set(struct feed_source *source,
                                   const struct feed_file *file, uint32_t dim,
                                   struct sl_error *err)
{
    struct table_file rows;

    if (table_file_find(&rows, source->file, dim, err) != SL_OK)
        return SL_ECORRUPT;
    if (rows.rows != file->changed)
        return sl_fail(err, SL_ECORRUPT, "it has %llu rows, %llu are right",
                       (unsigned long long)rows.rows,
                       (unsigned long long)file->changed);
    feed_ids_set(&source->changed, source->file, rows.ids);
    source->values = tensorfile_data(source->file, rows.values);
    return file->base ? SL_OK : feed_source_gone(source, file->gone, err);
}

static enum sl_err feed_source_open(struct feed_source *source,
                                    const struct table_feed *f,
                                    const struct feed_file *file,
                                    struct sl_error *err)
{
    char *path = fs_join(f->folder, file->name);
    enum sl_err rc = path != NULL
                         ? tensorfile_open(&source->file, fs_posix(), path,
                                           TENSORFILE_HEADER_OURS, err)
                         : sl_no_memory(err);

    if (rc == SL_OK) {
        rc = feed_source_set(source, file, f->dim, err);
        if (rc != SL_OK)
            sl_prefix(err, rc, "%s", path);
    } else if (rc == SL_ENOENT) {
        // SL_ENOENT is for a file of the store, which may go while it is asked
        // for: then `sluice follow` tries again.
        rc = sl_fail(err, SL_ECORRUPT,
                     "%s is missing, and " FEED_INDEX
                     " lists it: remove the folder, and it begins anew",
                     path);
    }
    sl_free(path);
    return rc;
}

static enum sl_err feed_rows_next(struct row_stream *s, struct table_row *row,
                                  struct sl_error *err);

enum sl_err feed_rows_open(struct feed_rows *r, const struct table_feed *f,
                           struct sl_error *err)
{
    size_t base = f->count - 1;
    enum sl_err rc = SL_OK;

    while (base > 0 && !f->files[base].base)
        base--;
    *r = (struct feed_rows){.stream = {feed_rows_next}, .dim = f->dim};
    r->sources = sl_calloc(f->count - base, sizeof(*r->sources));
    if (r->sources == NULL)
        return sl_no_memory(err);
    for (; rc == SL_OK && base + r->count < f->count; r->count++)
        rc = feed_source_open(&r->sources[r->count], f,
                              &f->files[base + r->count], err);
    return rc;
}

void feed_rows_release(struct feed_rows *r)
{
    for (size_t i = 0; i < r->count; i++)
        tensorfile_close(r->sources[i].file);
    sl_free(r->sources);
    *r = (struct feed_rows){.sources = NULL};
}

// ---- reading

// Lowers *least to the hash of the next id, if that is lower or the first.
static void feed_ids_least(const struct feed_ids *ids, uint64_t *least,
                           bool *any)
{
    if (ids->next < ids->count && (!*any || ids->hash < *least)) {
        *least = ids->hash;
        *any = true;
    }
}

// Fills *row with what the files say of the id with this hash, and passes it.
static void feed_rows_take(struct feed_rows *r, uint64_t hash,
                           struct table_row *row)
{
    for (size_t i = 0; i < r->count; i++) {
        struct feed_source *source = &r->sources[i];
        const struct feed_ids *changed = &source->changed;

        if (source->gone.next < source->gone.count && source->gone.hash == hash)
            row->values = NULL;
        if (changed->next < changed->count && changed->hash == hash)
            *row = (struct table_row){hash, changed->id,
                                      source->values + changed->next * r->dim *
                                                           sizeof(float)};
        feed_ids_pass(&source->gone, hash);
        feed_ids_pass(&source->changed, hash);
    }
}

static enum sl_err feed_rows_next(struct row_stream *s, struct table_row *row,
                                  struct sl_error *err)
{
    struct feed_rows *r = sl_container_of(s, struct feed_rows, stream);
    bool any;

    (void)err; // what is mapped can be read
    *row = (struct table_row){.values = NULL};
    do {
        uint64_t least = 0;

        any = false;
        for (size_t i = 0; i < r->count; i++) {
            feed_ids_least(&r->sources[i].changed, &least, &any);
            feed_ids_least(&r->sources[i].gone, &least, &any);
        }
        if (any)
            feed_rows_take(r, least, row);
    } while (any && row->values == NULL);
    return SL_OK;
}
