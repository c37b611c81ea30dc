// SPDX-License-Identifier: Apache-2.0
// client/files/table_feed.c -- a feed's folder: what is added, what goes.
#include "client/files/table_feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/files/feed_rows.h"
#include "common/base/mem.h"

// ---- the folder

struct feed_stray {
    const struct table_feed *feed;
    struct sl_error *err;
};

static bool feed_lists(const struct table_feed *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->files[i].name, name) == 0)
            return true;
    return false;
}

static enum sl_err feed_remove(const struct table_feed *f, const char *name,
                               struct sl_error *err)
{
    char *path = fs_join(f->folder, name);
    enum sl_err rc =
        path != NULL ? fs_unlink(fs_posix(), path, err) : sl_no_memory(err);

    sl_free(path);
    return rc;
}

// Removes a file of a feed that the index does not list. Without an index all
// files must be such: the folder may be a person's.
static enum sl_err feed_on_name(void *arg, const char *name)
{
    struct feed_stray *s = arg;
    const struct table_feed *f = s->feed;

    if (feed_lists(f, name))
        return SL_OK;
    if (feed_owns(name) || table_export_left(name) ||
        strcmp(name, FEED_INDEX ".tmp") == 0)
        return feed_remove(f, name, s->err);
    if (f->count > 0 || strcmp(name, "lock") == 0)
        return SL_OK;
    return sl_fail(s->err, SL_EEXIST,
                   "%s has other files (%.100s) and no " FEED_INDEX
                   ": name a new or empty folder with --to",
                   f->folder, name);
}

static enum sl_err feed_sweep(const struct table_feed *f, struct sl_error *err)
{
    struct feed_stray s = {.feed = f, .err = err};

    return fs_list(fs_posix(), f->folder, feed_on_name, &s, err);
}

enum sl_err table_feed_open(struct table_feed *f, const char *folder,
                            const char *id, const char *table, uint32_t dim,
                            uint32_t most, struct sl_error *err)
{
    enum sl_err rc;

    *f = (struct table_feed){.folder = sl_strdup(folder),
                             .id = id,
                             .table = table,
                             .dim = dim,
                             .most = most,
                             .lock = STATELOCK_INIT};
    if (f->folder == NULL)
        return sl_no_memory(err);
    rc = fs_mkdirs(fs_posix(), folder, err);
    if (rc == SL_OK)
        rc = statelock_take(&f->lock, folder, err);
    if (rc == SL_EBUSY)
        return sl_fail(err, SL_EBUSY,
                       "%s: another 'sluice follow' writes this folder",
                       folder);
    if (rc != SL_OK)
        return rc;
    rc = feed_index_read(f, err);
    return rc == SL_OK || rc == SL_ENOENT ? feed_sweep(f, err) : rc;
}

void table_feed_release(struct table_feed *f)
{
    statelock_release(&f->lock);
    sl_free(f->folder);
    sl_free(f->job);
    sl_free(f->files);
    *f = (struct table_feed){.lock = STATELOCK_INIT};
}

const struct feed_file *table_feed_last(const struct table_feed *f)
{
    return f->count > 0 ? &f->files[f->count - 1] : NULL;
}

// ---- files

// Writes a file and lists it, in memory.
static enum sl_err feed_write(struct table_feed *f, const struct table_delta *d,
                              uint64_t from, uint64_t cut, struct sl_error *err)
{
    const struct table_delta_name name = {f->id, f->table, from, cut,
                                          from == 0};
    struct feed_file *list =
        sl_realloc_array(f->files, f->count + 1, sizeof(*list));
    struct feed_file file = {.base = from == 0,
                             .from = from,
                             .cut = cut,
                             .changed = d->changed_count,
                             .gone = d->gone_count,
                             .sum = d->after};
    char *path;
    enum sl_err rc;

    if (list == NULL)
        return sl_no_memory(err);
    f->files = list;
    if (file.base)
        snprintf(file.name, sizeof(file.name), "base-%" PRIu64 ".safetensors",
                 cut);
    else
        snprintf(file.name, sizeof(file.name),
                 "delta-%" PRIu64 "-%" PRIu64 ".safetensors", from, cut);
    path = fs_join(f->folder, file.name);
    rc = path != NULL ? table_delta_write(d, path, &name, &file.bytes, err)
                      : sl_no_memory(err);
    sl_free(path);
    if (rc == SL_OK)
        f->files[f->count++] = file;
    return rc;
}

// Returns true if a new base is due.
static bool feed_is_long(const struct table_feed *f)
{
    uint64_t deltas = 0, bytes = 0;

    for (size_t i = f->count; i > 0; i--) {
        const struct feed_file *file = &f->files[i - 1];

        if (file->base)
            return deltas >= f->most || bytes > file->bytes;
        deltas++;
        bytes += file->bytes;
    }
    return true;
}

// Writes the whole table, and takes the base before it and all that stands
// before that off the list: readers of the cut before need the delta to this
// one, and may still be at an older cut.
static enum sl_err feed_rebase(struct table_feed *f, struct table_export *x,
                               uint64_t cut, struct sl_error *err)
{
    struct table_delta whole = {.dim = 0};
    size_t base = f->count;
    enum sl_err rc = table_delta_of_cuts(&whole, NULL, x, f->folder, err);

    while (base > 0 && !f->files[base - 1].base)
        base--;
    if (rc == SL_OK)
        rc = feed_write(f, &whole, 0, cut, err);
    table_delta_release(&whole);
    if (rc != SL_OK)
        return rc;
    f->count -= base;
    memmove(f->files, f->files + base, f->count * sizeof(*f->files));
    return SL_OK;
}

// Compares a cut with the feed.
static enum sl_err feed_compare(struct table_delta *d,
                                const struct table_feed *f,
                                struct table_export *x, struct sl_error *err)
{
    const struct table_sum *last = &f->files[f->count - 1].sum;
    struct feed_rows old;
    struct cut_rows new;
    enum sl_err rc = feed_rows_open(&old, f, err);

    cut_rows_init(&new, x);
    if (rc == SL_OK)
        rc = table_export_fetch(x, f->folder, err);
    if (rc == SL_OK)
        rc = table_delta_make(d, &old.stream, &new.stream, f->dim, err);
    if (rc == SL_OK &&
        (d->before.rows != last->rows || d->before.digest != last->digest))
        rc = sl_fail(err, SL_ECORRUPT,
                     "%s: its files are not the table of cut %" PRIu64
                     " that " FEED_INDEX " tells of (%" PRIu64
                     " rows of %" PRIu64 "): remove them and begin anew",
                     f->folder, f->files[f->count - 1].cut, d->before.rows,
                     last->rows);
    cut_rows_release(&new);
    feed_rows_release(&old);
    return rc;
}

static enum sl_err feed_add_delta(struct table_feed *f, struct table_export *x,
                                  uint64_t cut, struct sl_error *err)
{
    struct table_delta d = {.dim = 0};
    enum sl_err rc = feed_compare(&d, f, x, err);

    if (rc == SL_OK)
        rc = feed_write(f, &d, f->files[f->count - 1].cut, cut, err);
    table_delta_release(&d);
    return rc;
}

static enum sl_err feed_check_job(struct table_feed *f, const char *job,
                                  struct sl_error *err)
{
    if (f->job == NULL) {
        f->job = sl_strdup(job);
        return f->job != NULL ? SL_OK : sl_no_memory(err);
    }
    return strcmp(f->job, job) == 0
               ? SL_OK
               : sl_fail(err, SL_EEXIST,
                         "%s follows job %s, and this %s is %s: name another "
                         "folder with --to",
                         f->folder, f->job, f->id, job);
}

// Writes the files of a cut, and then the index that lists them.
static enum sl_err feed_write_cut(struct table_feed *f, struct table_export *x,
                                  uint64_t cut, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (f->count > 0)
        rc = feed_add_delta(f, x, cut, err);
    if (rc == SL_OK && feed_is_long(f))
        rc = feed_rebase(f, x, cut, err);
    return rc == SL_OK ? feed_index_write(f, err) : rc;
}

enum sl_err table_feed_add(struct table_feed *f, struct table_export *x,
                           const char *job, uint64_t cut, struct sl_error *err)
{
    size_t listed = f->count;
    struct feed_file *before;
    enum sl_err rc = feed_check_job(f, job, err);

    if (rc != SL_OK)
        return rc;
    before = sl_malloc_array(listed + 1, sizeof(*before));
    if (before == NULL)
        return sl_no_memory(err);
    if (listed > 0)
        memcpy(before, f->files, listed * sizeof(*before));
    rc = feed_write_cut(f, x, cut, err);
    if (rc != SL_OK) { // index.json is as it was, so the list is, too
        sl_free(f->files);
        f->files = before;
        f->count = listed;
        return rc;
    }
    sl_free(before);
    return feed_sweep(f, err);
}
