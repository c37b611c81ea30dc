// SPDX-License-Identifier: Apache-2.0
// state/snap/snap_source.c -- a shard that starts from snapshots of another
// job.
//
// A resumed job may be cut into other shards than the job that it resumes, so
// a shard finds its rows in parts of several files. Each tensor says by name
// and rows what it holds; what overlaps is copied, and every row must be found.
//
// One counted set stands for all rows of a shard. So the files must have
// counted the same steps, with the same result: the coordinator does not
// accept a job for which that is not so, and this code checks it again.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "state/snap/snap.h"

// ---- one file

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

// Where the file is: as it was written, or in the folder of that name in our
// store. *fs is ours, and becomes that of the file. sl_free; NULL: no memory.
static char *find_source(struct fs **fs, const char *store,
                         const struct plan_source *source)
{
    char *named = fs_join(source->folder, source->file);
    struct fs *own = *fs;
    char *folder, *ours = NULL;

    *fs = snap_fs_of(own, store, source->folder);
    if (named == NULL || fs_exists(*fs, named))
        return named;
    folder = fs_join(store, last_part(source->folder));
    if (folder != NULL)
        ours = fs_join(folder, source->file);
    sl_free(folder);
    if (ours != NULL && fs_exists(own, ours)) {
        sl_free(named);
        *fs = own;
        return ours;
    }
    sl_free(ours);
    return named;
}

static enum sl_err open_source(struct fs *fs, const char *path,
                               const struct plan_source *source,
                               struct tensorfile **out, struct sl_error *err)
{
    struct tensorfile *f = NULL;
    enum sl_err rc = sha256_file_is(fs, path, source->sha256, "manifest", err);

    if (rc != SL_OK)
        return rc;
    rc = tensorfile_open_unmapped(&f, fs, path, SNAP_HEADER_MAX, err);
    if (rc != SL_OK)
        return rc;
    rc = snap_verify(f, err);
    if (rc != SL_OK) {
        tensorfile_close(f);
        return rc;
    }
    *out = f;
    return SL_OK;
}

// ---- rows

// Rows that a piece of the shard and a tensor of a file have in common.
struct row_overlap {
    uint64_t first, rows; // of the variable
    uint64_t there, here; // first of them in the tensor, in the piece
};

// Which rows of the piece's variable the file holds; none: rows is 0.
static enum sl_err find_overlap(const struct tensorfile *f,
                                const struct plan_piece *piece,
                                struct row_overlap *out, struct sl_error *err)
{
    uint64_t first, rows, end, mine = piece->first_row + piece->rows;
    struct buf key = BUF_INIT;
    const char *text;
    int read = 0;

    *out = (struct row_overlap){0};
    if (buf_appendf(&key, SNAP_KEY_ROWS "%s", piece->name) != SL_OK)
        return sl_no_memory(err);
    text = tensorfile_meta(f, buf_text(&key));
    buf_release(&key);
    if (text == NULL)
        return SL_OK; // the variable lies in other files
    if (sscanf(text, "%" SCNu64 ":%" SCNu64 "%n", &first, &rows, &read) != 2 ||
        text[read] != '\0' || __builtin_add_overflow(first, rows, &end))
        return sl_fail(err, SL_ECORRUPT, "metadata: rows of %s are '%.40s'",
                       piece->name, text);
    if (first >= mine || end <= piece->first_row)
        return SL_OK;
    out->first = first > piece->first_row ? first : piece->first_row;
    out->rows = (end < mine ? end : mine) - out->first;
    out->there = out->first - first;
    out->here = out->first - piece->first_row;
    return SL_OK;
}

static bool tensor_fits(const struct tensor_info *t,
                        const struct plan_piece *piece,
                        const struct row_overlap *o)
{
    uint64_t row = piece->elements / piece->rows;

    if (t == NULL || t->dtype != TENSOR_F32 || t->rank != piece->rank)
        return false;
    for (unsigned i = 1; i < piece->rank; i++)
        if (t->shape[i] != piece->shape[i])
            return false;
    return (t->end - t->begin) / sizeof(float) / row >= o->there + o->rows;
}

// Matrix k (values, then slots) of the rows of a piece that the file holds.
static enum sl_err copy_matrix(const struct tensorfile *f, struct shard *s,
                               const struct plan_piece *piece, unsigned k,
                               const struct row_overlap *o,
                               struct sl_error *err)
{
    uint64_t row = piece->elements / piece->rows;
    float *to = k == 0 ? s->memory.values : s->memory.slots[k - 1];
    const struct tensor_info *t;
    struct buf name = BUF_INIT;
    enum sl_err rc = buf_append_str(&name, piece->name);

    if (rc == SL_OK && k > 0)
        rc = buf_appendf(&name, "#%s", optim_slot_name(&s->plan.optim, k - 1));
    if (rc == SL_OK) {
        t = tensorfile_find(f, buf_text(&name));
        if (tensor_fits(t, piece, o))
            rc = tensorfile_read(f, t, o->there * row * sizeof(float),
                                 to + piece->first + o->here * row,
                                 o->rows * row * sizeof(float), err);
        else
            rc = sl_fail(err, SL_ECORRUPT,
                         "tensor %s is missing, or not of the shape that the "
                         "job has",
                         buf_text(&name));
    }
    buf_release(&name);
    return rc;
}

// Copies what the file has of the shard; adds to found[piece] how many rows.
static enum sl_err copy_rows(const struct tensorfile *f, struct shard *s,
                             uint64_t *found, struct sl_error *err)
{
    unsigned matrices = 1 + optim_slots(&s->plan.optim);
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < s->plan.piece_count; i++) {
        const struct plan_piece *piece = &s->plan.pieces[i];
        struct row_overlap o;

        rc = find_overlap(f, piece, &o, err);
        for (unsigned k = 0; rc == SL_OK && o.rows > 0 && k < matrices; k++)
            rc = copy_matrix(f, s, piece, k, &o, err);
        found[i] += o.rows;
    }
    return rc;
}

// ---- the counted set

// The same steps with the same result on every row: then one set, one version
// and one line of numbers are true of all of them.
static bool same_steps(const struct once *a, const struct once *b)
{
    if (!counted_equal(&a->counted, &b->counted) ||
        a->counts.applied != b->counts.applied ||
        a->counts.skipped != b->counts.skipped ||
        a->epoch_count != b->epoch_count)
        return false;
    for (size_t i = 0; i < a->epoch_count; i++)
        if (a->epochs[i].epoch != b->epochs[i].epoch ||
            a->epochs[i].steps != b->epochs[i].steps ||
            a->epochs[i].samples != b->epochs[i].samples ||
            a->epochs[i].digest != b->epochs[i].digest)
            return false;
    return true;
}

// Rows of one variable have been passed over by the same updates, since a step
// names whole variables; files that hold none of them say nothing.
static enum sl_err merge_passed(struct once *to, const struct once *from)
{
    enum sl_err rc = SL_OK;

    if (from->passed != NULL)
        rc = once_reserve_passed(to, from->passed_count);
    for (size_t i = 0; rc == SL_OK && i < from->passed_count; i++)
        if (from->passed[i] > to->passed[i])
            to->passed[i] = from->passed[i];
    return rc;
}

// The first file's set becomes the shard's; every other one must be the same.
static enum sl_err take_once(const struct tensorfile *f, struct shard *s,
                             bool first, struct sl_error *err)
{
    struct once once = {0};
    enum sl_err rc = snap_read_once(f, &s->plan, &once, err);

    if (rc != SL_OK)
        return rc;
    if (first) {
        once_release(&s->once);
        s->once = once;
        return SL_OK;
    }
    if (!same_steps(&s->once, &once))
        rc = sl_fail(err, SL_ESTATE,
                     "it has counted %" PRIu64 " steps (%" PRIu64
                     " applied), the other files of this shard %" PRIu64
                     " (%" PRIu64 "), or others: their rows cannot share a "
                     "counted set; resume on as many shards as the cut has",
                     counted_steps(&once.counted), once.counts.applied,
                     counted_steps(&s->once.counted), s->once.counts.applied);
    else
        rc = merge_passed(&s->once, &once);
    once_release(&once);
    return rc;
}

// ---- all of them

// Under the path that was submitted, or at the top of our store.
static enum sl_err open_weights(const struct snap_from *from, const char *named,
                                const struct plan_source *source,
                                struct fs_file **out, struct sl_error *err)
{
    enum sl_err rc = from->weights == NULL
                         ? fs_open(from->fs, out, named, FS_READ, err)
                         : roots_file(from->weights, out, named, err);
    struct sl_error none = SL_ERROR_INIT;
    char *ours;

    if (rc == SL_OK || from->store[0] == '\0')
        return rc;
    ours = fs_join(from->store, source->file);
    if (ours != NULL && fs_open(from->fs, out, ours, FS_READ, &none) == SL_OK)
        rc = SL_OK;
    sl_free(ours);
    return rc;
}

// Moves the error into the log's, since a file other than the submitted one may
// belong to another user; the job's error does not tell of it.
static enum sl_err keep_secret(const struct snap_from *from, enum sl_err rc,
                               const struct sl_error *why, struct sl_error *err)
{
    if (rc == SL_OK)
        return rc;
    if (from->secret == NULL || rc == SL_ECANCELED || rc == SL_ENOMEM)
        return sl_fail(err, rc, "%s", why->text);
    *from->secret = *why;
    return sl_fail(err, SL_EDENIED,
                   "this host cannot read it, or it is not the file that was "
                   "submitted; the log of this host says which, and "
                   "--weights-root names the folder of weights");
}

// Fills the shard from one file of weights: all variables, or a table.
static enum sl_err snap_take_weights(const struct snap_from *from,
                                     const struct plan_source *source,
                                     struct shard *s, struct sl_error *err)
{
    char *named = fs_join(source->folder, source->file);
    struct sl_error why = SL_ERROR_INIT;
    struct fs_file *file = NULL;
    enum sl_err rc = SL_ENOMEM;
    uint64_t bytes = 0;

    if (named != NULL)
        rc = open_weights(from, named, source, &file, &why);
    if (rc == SL_OK)
        rc = snap_weights_check(file, source, from, &bytes, &why);
    rc = keep_secret(from, rc, &why, err);
    if (rc == SL_OK)
        rc = source->table[0] == '\0'
                 ? snap_weights(s, file, bytes, from, err)
                 : snap_rows(s, source->table, file, bytes, from, err);
    if (rc != SL_OK && named != NULL)
        sl_prefix(err, rc, "cannot start with the weights of %s", named);
    fs_close(file);
    sl_free(named);
    return rc;
}

static enum sl_err snap_take_source(const struct snap_from *from,
                                    struct shard *s, size_t number,
                                    uint64_t *found, struct sl_error *err)
{
    const struct plan_source *source = &s->plan.sources[number];
    struct fs *fs = from->fs;
    char *path = find_source(&fs, from->store, source);
    struct table_chain chain = {0};
    struct tensorfile *f = NULL;
    enum sl_err rc =
        path == NULL ? SL_ENOMEM : open_source(fs, path, source, &f, err);

    if (rc == SL_OK)
        rc = take_once(f, s, number == 0, err);
    if (rc == SL_OK)
        rc = copy_rows(f, s, found, err);
    if (rc == SL_OK)
        rc = table_chain_beside(&chain, f, fs, path, false, err);
    if (rc == SL_OK)
        rc = snap_read_tables(&chain, s, once_version(&s->once), true, err);
    if (rc == SL_OK)
        HISTORY("source", "job=%" PRIu64 " uid=%" PRIx64 " shard=%u path=%s",
                s->plan.job, s->plan.job_uid, s->plan.shard, path);
    table_chain_close(&chain);
    tensorfile_close(f);
    if (rc != SL_OK && path != NULL)
        sl_prefix(err, rc, "cannot resume from %s", path);
    sl_free(path);
    return rc;
}

enum sl_err snap_sources(const struct snap_from *from, struct shard *s,
                         struct sl_error *err)
{
    uint64_t *found;
    enum sl_err rc = SL_OK;

    if (s->plan.sources[0].weights) {
        for (size_t i = 0; rc == SL_OK && i < s->plan.source_count; i++)
            rc = snap_take_weights(from, &s->plan.sources[i], s, err);
        return rc;
    }
    found = sl_calloc(s->plan.piece_count, sizeof(*found));
    rc = found == NULL ? SL_ENOMEM : SL_OK;
    for (size_t i = 0; rc == SL_OK && i < s->plan.source_count; i++)
        rc = snap_take_source(from, s, i, found, err);
    for (size_t i = 0; rc == SL_OK && i < s->plan.piece_count; i++)
        if (found[i] != s->plan.pieces[i].rows)
            rc = sl_fail(err, SL_ECORRUPT,
                         "the files to resume from hold %" PRIu64 " of %" PRIu64
                         " rows of %s",
                         found[i], s->plan.pieces[i].rows,
                         s->plan.pieces[i].name);
    sl_free(found);
    return rc;
}
