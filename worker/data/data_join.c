// SPDX-License-Identifier: Apache-2.0
// worker/data/data_join.c -- several files of one format as one source: the
// samples of the first file, then those of the second, and so on.
//
// Each file is a source of its own, so a csv with its columns in another order
// is read as its header says. What the files hold together may be of any size:
// if their arrays are over ARRAY_MEMORY_BYTES, rows are read from the files.
#include <string.h>

#include "common/base/mem.h"
#include "worker/data/data_array.h"
#include "common/base/paths.h"
#include "worker/data/data_source.h"

// The files that a source's patterns name.
struct joined_files {
    struct paths x, y, weights; // y, weights: as many as x, or none
};

struct joined {
    struct data data;
    struct data **part;
    uint64_t *end; // number of the sample behind the last one of each part
    size_t count;
};

static struct joined *joined_of(const struct data *d)
{
    return sl_container_of((struct data *)(uintptr_t)d, struct joined, data);
}

// Finds the part that has sample *number, and makes that its number in it.
static struct data *joined_part(const struct joined *j, uint64_t *number)
{
    size_t low = 0, high = j->count - 1;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (*number < j->end[middle])
            high = middle;
        else
            low = middle + 1;
    }
    *number -= low > 0 ? j->end[low - 1] : 0;
    return j->part[low];
}

static enum sl_err joined_read(struct data *d, uint64_t number, void *x,
                               void *y, struct sl_error *err)
{
    struct data *part = joined_part(joined_of(d), &number);
    enum sl_err rc = part->ops->read(part, number, x, y, err);

    if (rc == SL_OK)
        data_take_beside(d, part);
    return rc;
}

static void joined_soon(struct data *d, uint64_t number)
{
    struct data *part = joined_part(joined_of(d), &number);

    data_soon(part, number);
}

static void joined_expect(struct data *d, uint64_t number)
{
    struct data *part = joined_part(joined_of(d), &number);

    data_expect(part, number);
}

static uint64_t joined_memory(const struct data *d)
{
    const struct joined *j = joined_of(d);
    uint64_t bytes = j->count * (sizeof(*j->part) + sizeof(*j->end));

    for (size_t i = 0; i < j->count; i++)
        bytes += data_memory(j->part[i]);
    return bytes;
}

static void joined_release(struct data *d)
{
    struct joined *j = joined_of(d);

    for (size_t i = 0; i < j->count; i++)
        data_free(j->part[i]);
    sl_free(j->part);
    sl_free(j->end);
}

static const struct data_ops joined_ops = {
    .read = joined_read,
    .soon = joined_soon,
    .expect = joined_expect,
    .memory = joined_memory,
    .release = joined_release,
};

// ---- opening

// Adds the bytes of the files to *total.
static enum sl_err joined_bytes(const struct paths *files,
                                const struct data_source *s, uint64_t *total,
                                struct sl_error *err)
{
    for (size_t i = 0; i < files->count; i++) {
        struct fs_file *file = NULL;
        uint64_t bytes = 0;
        enum sl_err rc = roots_file(s->roots, &file, files->path[i], err);

        if (rc == SL_OK)
            rc = fs_size(file, &bytes, err);
        fs_close(file);
        if (rc != SL_OK)
            return rc;
        *total += bytes;
    }
    return SL_OK;
}

static enum sl_err joined_add(struct joined *j, struct data *part,
                              const char *path, struct sl_error *err)
{
    uint64_t before = j->count > 0 ? j->end[j->count - 1] : 0;

    j->part[j->count] = part;
    j->end[j->count++] = before + part->samples;
    if (part->u8 != j->part[0]->u8)
        return sl_fail(err, SL_EINVAL,
                       "%s: has features of another type than the first file; "
                       "save all with one type",
                       path);
    data_hash_number(&j->data, data_hash(part));
    return SL_OK;
}

// Opens files until they have as many samples as are used.
static enum sl_err joined_fill(struct joined *j, const struct data_source *s,
                               const struct joined_files *f, data_open_fn open,
                               struct sl_error *err)
{
    struct data_source one = *s;
    enum sl_err rc = SL_OK;

    one.bad = NULL; // data.c passes over samples by their numbers in the whole
    one.limit = 0;
    while (
        rc == SL_OK && j->count < f->x.count &&
        (s->limit == 0 || j->count == 0 || j->end[j->count - 1] < s->limit)) {
        struct data *part = NULL;

        one.x = f->x.path[j->count];
        one.y = f->y.count > 0 ? f->y.path[j->count] : NULL;
        if (f->weights.count > 0)
            one.weights = f->weights.path[j->count];
        rc = open(&part, &one, &j->data.want, err);
        if (rc == SL_OK)
            rc = joined_add(j, part, one.x, err);
    }
    return rc;
}

static enum sl_err joined_open(struct joined *j, const struct data_source *s,
                               const struct joined_files *f, data_open_fn open,
                               struct sl_error *err)
{
    struct data_source all = *s;
    uint64_t bytes = 0;
    enum sl_err rc = joined_bytes(&f->x, s, &bytes, err);

    if (rc == SL_OK)
        rc = joined_bytes(&f->y, s, &bytes, err);
    if (rc == SL_OK)
        rc = joined_bytes(&f->weights, s, &bytes, err);
    all.stay = bytes > ARRAY_MEMORY_BYTES;
    j->part = sl_calloc(f->x.count, sizeof(*j->part));
    j->end = sl_malloc_array(f->x.count, sizeof(*j->end));
    if (rc == SL_OK && (j->part == NULL || j->end == NULL))
        rc = sl_no_memory(err);
    if (rc == SL_OK)
        rc = data_set_ids(&j->data, s, err);
    if (rc == SL_OK && s->weights != NULL)
        rc = data_set_weights(&j->data, err);
    if (rc == SL_OK)
        rc = joined_fill(j, &all, f, open, err);
    if (rc == SL_OK)
        rc = data_set_samples(&j->data, j->end[j->count - 1], s, err);
    return rc;
}

static enum sl_err joined_new(struct data **out, const struct data_source *s,
                              const struct data_want *want,
                              const struct joined_files *f, data_open_fn open,
                              struct sl_error *err)
{
    struct joined *j = sl_calloc(1, sizeof(*j));
    enum sl_err rc;

    if (j == NULL)
        return sl_no_memory(err);
    data_init(&j->data, &joined_ops, s, want);
    rc = joined_open(j, s, f, open, err);
    if (rc != SL_OK) {
        data_free(&j->data);
        return rc;
    }
    j->data.u8 = j->part[0]->u8;
    *out = &j->data;
    return SL_OK;
}

// Finds the files that a pattern names, as many as those of samples; of NULL
// none.
static enum sl_err joined_beside(struct paths *out, const struct data_source *s,
                                 const char *pattern, size_t count,
                                 const char *what, struct sl_error *err)
{
    enum sl_err rc =
        pattern == NULL ? SL_OK : paths_expand(out, s->roots, pattern, err);

    if (rc != SL_OK || pattern == NULL || out->count == count)
        return rc;
    return sl_fail(err, SL_EINVAL,
                   "%.120s names %zu files but %.120s %zu; each file of "
                   "samples needs one of %s",
                   s->x, count, pattern, out->count, what);
}

enum sl_err data_open_join(struct data **out, const struct data_source *s,
                           const struct data_want *want, data_open_fn open,
                           struct sl_error *err)
{
    struct joined_files f = {.x = {.path = NULL}};
    // Of an npz and a csv the weights lie in the file of samples.
    const char *weights = s->y != NULL ? s->weights : NULL;
    enum sl_err rc = paths_expand(&f.x, s->roots, s->x, err);

    if (rc == SL_OK)
        rc = joined_beside(&f.y, s, s->y, f.x.count, "labels", err);
    if (rc == SL_OK)
        rc = joined_beside(&f.weights, s, weights, f.x.count, "weights", err);
    if (rc == SL_OK)
        rc = joined_new(out, s, want, &f, open, err);
    paths_release(&f.x);
    paths_release(&f.y);
    paths_release(&f.weights);
    return rc;
}
