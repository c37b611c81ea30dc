// SPDX-License-Identifier: Apache-2.0
// state/snap/snap_write.c -- the writer of a snapshot file: temporary name,
// sync, rename, sync of the folder.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/base64.h"
#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "proto/table_chain.h"
#include "state/shard/counts.h"
#include "state/base/finite.h"
#include "state/snap/snap.h"

#define META_FIXED 14 // keys besides two per piece

// What goes into the file's header, and the texts that it points at.
struct header {
    struct tensor_info *tensors;
    size_t tensor_count;
    size_t matrix_tensors; // number of the first tensor of a table
    struct tensor_meta *meta;
    size_t meta_count;
    char **texts; // owned
    size_t text_count, text_cap;
};

static void header_release(struct header *h)
{
    for (size_t i = 0; i < h->text_count; i++)
        sl_free(h->texts[i]);
    sl_free(h->texts);
    sl_free(h->tensors);
    sl_free(h->meta);
}

static enum sl_err header_reserve(struct header *h, size_t tensors,
                                  size_t pieces)
{
    h->text_cap = tensors + META_FIXED + 4 * pieces;
    h->texts = sl_calloc(h->text_cap, sizeof(*h->texts));
    h->tensors = sl_calloc(tensors, sizeof(*h->tensors));
    h->meta = sl_calloc(META_FIXED + 2 * pieces, sizeof(*h->meta));
    return h->texts && h->tensors && h->meta ? SL_OK : SL_ENOMEM;
}

// Takes a buffer's text; NULL when it, or memory, is not there.
static const char *keep_text(struct header *h, struct buf *b)
{
    size_t n;

    if (b->data == NULL)
        return NULL;
    h->texts[h->text_count] = (char *)buf_detach(b, &n);
    return h->texts[h->text_count++];
}

static const char *snap_header_text(struct header *h, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static const char *snap_header_text(struct header *h, const char *fmt, ...)
{
    struct buf b = BUF_INIT;
    const char *kept = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (buf_vappendf(&b, fmt, ap) == SL_OK)
        kept = keep_text(h, &b);
    va_end(ap);
    buf_release(&b);
    return kept;
}

static enum sl_err add_meta(struct header *h, const char *key,
                            const char *value)
{
    if (key == NULL || value == NULL)
        return SL_ENOMEM;
    h->meta[h->meta_count++] = (struct tensor_meta){key, value};
    return SL_OK;
}

// A message, as base64.
static enum sl_err add_message(struct header *h, const char *key,
                               const ProtobufCMessage *msg)
{
    struct buf packed = BUF_INIT, coded = BUF_INIT;
    enum sl_err rc = wire_pack(msg, &packed);

    if (rc == SL_OK)
        rc = base64_encode(&coded, packed.data, packed.len);
    if (rc == SL_OK)
        rc = add_meta(h, key, keep_text(h, &coded));
    buf_release(&packed);
    buf_release(&coded);
    return rc;
}

static enum sl_err add_sets(struct header *h, const struct once *o)
{
    struct wire_counted set = {0};
    struct counts_msg counts = {0};
    enum sl_err rc = wire_counted_init(&set, &o->counted);

    if (rc == SL_OK)
        rc = add_message(h, SNAP_KEY_COUNTED, &set.msg.base);
    if (rc == SL_OK)
        rc = counts_of_once(&counts, o);
    if (rc == SL_OK)
        rc = add_message(h, SNAP_KEY_COUNTS, &counts.msg.base);
    wire_counted_release(&set);
    counts_release(&counts);
    return rc;
}

static enum sl_err add_numbers(struct header *h,
                               const struct shard_image *image)
{
    const struct plan *p = &image->shard->plan;
    uint64_t version = once_version(&image->once);
    struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {SNAP_KEY_JOB, p->job},
        {SNAP_KEY_JOB_INCARNATION, p->job_incarnation},
        {SNAP_KEY_SHARD, p->shard},
        {SNAP_KEY_INCARNATION, image->tag.incarnation},
        {SNAP_KEY_SEQUENCE, image->tag.sequence},
        {SNAP_KEY_VERSION, version},
    };
    enum sl_err rc = add_meta(h, SNAP_KEY_FORMAT,
                              image->delta ? SNAP_FORMAT_DELTA : SNAP_FORMAT);

    if (rc == SL_OK)
        rc = add_meta(h, SNAP_KEY_JOB_UID,
                      snap_header_text(h, "%016" PRIx64, p->job_uid));
    if (rc == SL_OK)
        rc =
            add_meta(h, SNAP_KEY_OPTIMIZER,
                     snap_header_text(h, "%s %" PRIu64,
                                      optim_kind_name(p->optim.kind), version));
    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(numbers); i++)
        rc = add_meta(h, numbers[i].key,
                      snap_header_text(h, "%" PRIu64, numbers[i].value));
    return rc;
}

static enum sl_err add_rows(struct header *h, const struct plan *p)
{
    const struct plan_piece *piece;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < p->piece_count; i++) {
        piece = &p->pieces[i];
        rc = add_meta(h, snap_header_text(h, SNAP_KEY_ROWS "%s", piece->name),
                      snap_header_text(h, "%" PRIu64 ":%" PRIu64,
                                       piece->first_row, piece->rows));
    }
    return rc;
}

// What updates passed over.
static enum sl_err add_passed(struct header *h, const struct plan *p,
                              const struct once *o)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < o->passed_count; i++)
        if (o->passed[i] > 0)
            rc = add_meta(
                h, snap_header_text(h, SNAP_KEY_PASSED "%s", p->pieces[i].name),
                snap_header_text(h, "%" PRIu64, o->passed[i]));
    return rc;
}

// Matrix `k` of the shard's memory: 0 the values, then the slots. Their order
// and places in the file are those in memory.
static enum sl_err add_tensors(struct header *h, const struct plan *p,
                               unsigned k)
{
    const struct plan_piece *piece;
    struct tensor_info *t;

    for (size_t i = 0; i < p->piece_count; i++) {
        piece = &p->pieces[i];
        t = &h->tensors[h->tensor_count++];
        t->name = k == 0 ? piece->name
                         : snap_header_text(h, "%s#%s", piece->name,
                                            optim_slot_name(&p->optim, k - 1));
        if (t->name == NULL)
            return SL_ENOMEM;
        t->dtype = TENSOR_F32;
        t->rank = piece->rank;
        memcpy(t->shape, piece->shape, piece->rank * sizeof(t->shape[0]));
        t->begin = (k * p->elements + piece->first) * sizeof(float);
        t->end = t->begin + piece->elements * sizeof(float);
    }
    return SL_OK;
}

// The files below a delta, the nearest first (T10).
static enum sl_err add_chain(struct header *h, const struct shard_image *image)
{
    const struct shard_chain *c = &image->shard->chain;
    char file[SNAP_NAME_BYTES], hex[SHA256_HEX];
    struct buf text = BUF_INIT;
    enum sl_err rc = SL_OK;

    for (unsigned i = c->count; rc == SL_OK && image->delta && i-- > 0;) {
        snap_file_name(file, image->shard->plan.shard, c->link[i].tag);
        hex_encode(hex, c->link[i].sha256, SHA256_BYTES);
        rc = buf_appendf(&text, "%s%s:%s", text.len > 0 ? "," : "", file, hex);
    }
    if (rc == SL_OK && image->delta)
        rc = add_meta(h, TABLE_CHAIN_KEY, keep_text(h, &text));
    buf_release(&text);
    return rc;
}

// Adds a tensor of one table's part, which has no place yet.
static enum sl_err header_add_part(struct header *h, const char *prefix,
                                   const char *table,
                                   const struct tensor_info *form)
{
    struct tensor_info *t = &h->tensors[h->tensor_count++];

    *t = *form;
    t->name = snap_header_text(h, "%s%s", prefix, table);
    return t->name == NULL ? SL_ENOMEM : SL_OK;
}

// Of one table: its rows and its waiting ids, and in a delta the ids of both
// that went.
static enum sl_err add_table(struct header *h, const struct shard_image *image,
                             size_t table)
{
    const char *const *prefix =
        image->delta ? table_changed_prefix : table_whole_prefix;
    const char *name = image->shard->plan.tables[table].name;
    struct rowset *set = image->shard->tables.sets[table];
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; rc == SL_OK && i < ROWSET_PARTS; i++) {
        struct tensor_info t = {.dtype = TENSOR_U8, .rank = 2};

        t.shape[0] = rowset_frozen(set, (enum rowset_part)i);
        t.shape[1] = rowset_part_stride(set, (enum rowset_part)i);
        rc = header_add_part(h, prefix[i], name, &t);
    }
    for (unsigned i = 0; rc == SL_OK && image->delta && i < ROWSET_PARTS; i++) {
        struct tensor_info t = {.dtype = TENSOR_U64, .rank = 1};

        t.shape[0] = rowset_gone(set, (enum rowset_part)i);
        rc = header_add_part(h, table_gone_prefix[i], name, &t);
    }
    return rc;
}

// Gives the tensors of tables their places, behind all matrices and without
// gaps. Sets *bytes to what they take together.
static enum sl_err header_place_tables(struct header *h,
                                       const struct shard *shard,
                                       uint64_t *bytes)
{
    uint64_t begin = shard_bytes(shard), at = begin, n = 0;
    enum sl_err rc = SL_OK;

    for (size_t i = h->matrix_tensors; rc == SL_OK && i < h->tensor_count;
         i++) {
        struct tensor_info *t = &h->tensors[i];

        rc = tensor_bytes(&n, t);
        t->begin = at;
        t->end = at += n;
    }
    *bytes = at - begin;
    return rc;
}

// The moments of a worker's optimizer (L9), vector by vector.
static enum sl_err add_moments(struct header *h,
                               const struct shard_image *image)
{
    const struct plan *p = &image->shard->plan;
    const struct moments_set *m = image->moments;
    enum sl_err rc = SL_OK;

    if (m == NULL)
        return SL_OK;
    for (unsigned k = 0; k < p->moments; k++) {
        struct tensor_info *t = &h->tensors[h->tensor_count++];

        *t = (struct tensor_info){.dtype = snap_moments_dtype(p), .rank = 1};
        t->shape[0] = p->elements;
        t->name = snap_header_text(h, SNAP_MOMENTS "%u", k);
        if (t->name == NULL)
            return SL_ENOMEM;
    }
    rc = add_meta(h, SNAP_KEY_MOMENTS_OF,
                  snap_header_text(h, "%" PRIu64, m->closure));
    return rc == SL_OK ? add_meta(h, SNAP_KEY_MOMENTS,
                                  snap_header_text(h, "%" PRIu64, m->t))
                       : rc;
}

// The records of the tables, table by table (T6).
static enum sl_err add_tables(struct header *h, const struct shard_image *image)
{
    enum sl_err rc = SL_OK;
    uint64_t bytes;

    h->matrix_tensors = h->tensor_count;
    for (size_t i = 0; rc == SL_OK && i < image->shard->tables.count; i++)
        rc = add_table(h, image, i);
    if (rc == SL_OK)
        rc = add_moments(h, image);
    return rc == SL_OK ? header_place_tables(h, image->shard, &bytes) : rc;
}

static enum sl_err header_make(struct header *h,
                               const struct shard_image *image)
{
    const struct plan *p = &image->shard->plan;
    unsigned matrices = 1 + optim_slots(&p->optim);
    enum sl_err rc =
        header_reserve(h,
                       matrices * p->piece_count +
                           SNAP_TABLE_TENSORS * p->table_count + p->moments,
                       p->piece_count);

    for (unsigned k = 0; rc == SL_OK && k < matrices; k++)
        rc = add_tensors(h, p, k);
    if (rc == SL_OK)
        rc = add_tables(h, image);
    if (rc == SL_OK)
        rc = add_numbers(h, image);
    if (rc == SL_OK)
        rc = add_chain(h, image);
    if (rc == SL_OK)
        rc = add_rows(h, p);
    if (rc == SL_OK)
        rc = add_passed(h, p, &image->once);
    if (rc == SL_OK)
        rc = add_sets(h, &image->once);
    return rc;
}

// Finite gradients can overflow a parameter. The values come first in a file.
static void snap_note_nonfinite(struct snap_written *out, const struct plan *p,
                                uint64_t first, const float *at, size_t n)
{
    size_t bad;

    if (out->not_finite[0] != '\0' || first >= p->elements)
        return;
    if (n > p->elements - first)
        n = p->elements - first;
    bad = finite_find(WIRE_F32, at, n);
    if (bad == n)
        return;
    snprintf(out->not_finite, sizeof(out->not_finite), "%s",
             plan_piece_of(p, first + bad)->name);
}

// Streams the image, while pushes go on.
static enum sl_err write_blocks(struct tensorfile_writer *w,
                                struct shard_image *image,
                                struct snap_written *out, struct sl_error *err)
{
    uint64_t at = 0; // elements
    void *space = sl_malloc(FREEZE_BLOCK_BYTES);
    enum sl_err rc = SL_OK;
    const void *bytes;
    size_t n;

    if (space == NULL)
        return sl_no_memory(err);
    for (size_t b = 0; rc == SL_OK && b < image->freeze.blocks; b++) {
        shard_image_take(image, b, space, &bytes, &n);
        snap_note_nonfinite(out, &image->shard->plan, at, bytes,
                            n / sizeof(float));
        at += n / sizeof(float);
        rc = tensorfile_append(w, bytes, n, err);
        FAULT("snap.block");
    }
    sl_free(space);
    return rc;
}

// Streams the records of one table's part, and notes in its tensor how many
// there were.
static enum sl_err write_part(struct tensorfile_writer *w,
                              struct shard_image *image, size_t table,
                              enum rowset_part part, struct tensor_info *t,
                              uint8_t *space, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    uint64_t written = 0;
    size_t n;

    while (rc == SL_OK &&
           shard_image_rows(image, table, part, SNAP_RECORDS, space, &n)) {
        rc = tensorfile_append(w, space, n * t->shape[1], err);
        written += n;
    }
    t->shape[0] = written;
    return rc == SL_OK ? shard_image_walked(image, table, err) : rc;
}

// Streams the ids that went of one table's part.
static enum sl_err write_gone(struct tensorfile_writer *w,
                              const struct rowset *set, enum rowset_part part,
                              uint8_t *space, struct sl_error *err)
{
    struct rowset_gone_at at = {0};
    enum sl_err rc = SL_OK;
    size_t n;

    while (rc == SL_OK && (n = rowset_gone_read(set, part, &at, SNAP_RECORDS,
                                                (uint64_t *)(void *)space)) > 0)
        rc = tensorfile_append(w, space, n * sizeof(uint64_t), err);
    return rc;
}

static enum sl_err write_table(struct tensorfile_writer *w,
                               struct shard_image *image, size_t table,
                               struct tensor_info *t, uint8_t *space,
                               struct sl_error *err)
{
    const struct rowset *set = image->shard->tables.sets[table];
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; rc == SL_OK && i < ROWSET_PARTS; i++)
        rc =
            write_part(w, image, table, (enum rowset_part)i, &t[i], space, err);
    for (unsigned i = 0; rc == SL_OK && image->delta && i < ROWSET_PARTS; i++)
        rc = write_gone(w, set, (enum rowset_part)i, space, err);
    return rc;
}

// Streams the tables, while pushes go on.
static enum sl_err write_tables(struct tensorfile_writer *w, struct header *h,
                                struct shard_image *image, struct sl_error *err)
{
    size_t tables = image->shard->tables.count;
    size_t each = image->delta ? SNAP_TABLE_TENSORS : ROWSET_PARTS;
    enum sl_err rc = SL_OK;
    uint8_t *space;

    if (tables == 0)
        return SL_OK;
    space = sl_malloc(snap_records_bytes(image->shard));
    if (space == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; rc == SL_OK && i < tables; i++)
        rc = write_table(w, image, i, &h->tensors[h->matrix_tensors + i * each],
                         space, err);
    sl_free(space);
    return rc;
}

static enum sl_err write_image(struct fs *fs, const char *path,
                               struct shard_image *image,
                               struct snap_written *out, struct sl_error *err)
{
    struct tensorfile_writer *w = NULL;
    struct header h = {0};
    enum sl_err rc = header_make(&h, image);

    if (rc == SL_OK)
        rc = tensorfile_create(&w, fs, path, h.tensors, h.tensor_count, h.meta,
                               h.meta_count, true, err);
    if (rc == SL_OK)
        rc = write_blocks(w, image, out, err);
    if (rc == SL_OK)
        rc = write_tables(w, &h, image, err);
    if (rc == SL_OK && image->moments != NULL)
        rc = tensorfile_append(w, image->moments->data, image->moments->bytes,
                               err);
    // How many records of an instant have changed is known when its walk ends.
    if (rc == SL_OK)
        rc = header_place_tables(&h, image->shard, &out->table_bytes);
    if (rc == SL_OK && image->delta)
        rc = tensorfile_shrink(w, h.tensors, h.tensor_count, h.meta,
                               h.meta_count, err);
    header_release(&h);
    if (rc != SL_OK) {
        tensorfile_abort(w);
        return rc;
    }
    FAULT("snap.written"); // fs.fsync, fs.rename and fs.dirsync follow
    return tensorfile_finish(w, &out->bytes, err);
}

static enum sl_err write_named(struct fs *fs, const char *path,
                               struct shard_image *image,
                               struct snap_written *out, struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct fs_stat st;
    enum sl_err rc = fs_stat_path(fs, path, &st, &why);

    if (rc != SL_OK && rc != SL_ENOENT)
        return sl_fail(err, rc, "%s", why.text);
    if (rc == SL_OK)
        return sl_fail(err, SL_EEXIST,
                       "%s exists: its tag was given twice (K1)", path);
    rc = write_image(fs, path, image, out, err);
    // Its header was put in place last, so its hash is not known before.
    return rc != SL_OK ? rc : sha256_file(fs, path, out->sha256, err);
}

static void note_below(struct snap_written *w, const struct shard_image *image)
{
    const struct shard_chain *c = &image->shard->chain;

    for (unsigned i = c->count; image->delta && i-- > 0;) {
        w->below[w->below_count++] = c->link[i].tag;
        w->below_bytes += c->link[i].file_bytes;
    }
}

enum sl_err snap_write_image(struct fs *fs, const char *folder,
                             struct shard_image *image,
                             struct snap_written *out, struct sl_error *err)
{
    const struct plan *p = &image->shard->plan;
    struct snap_written made = {.tag = image->tag};
    enum sl_err rc = fs_mkdirs(fs, folder, err);
    char *path;

    // What no reader would take is not written.
    if (rc == SL_OK)
        rc = counts_fit(&image->once, err);
    if (rc != SL_OK)
        return rc;
    snap_file_name(made.file, p->shard, made.tag);
    path = fs_join(folder, made.file);
    rc = path == NULL ? SL_ENOMEM : write_named(fs, path, image, &made, err);
    if (rc == SL_OK) {
        note_below(&made, image);
        shard_image_kept(image, made.sha256, made.table_bytes, made.bytes);
        HISTORY("snapshot",
                "job=%" PRIu64 " uid=%" PRIx64 " shard=%u incarnation=%" PRIu64
                " sequence=%" PRIu64 " steps=%" PRIu64 " path=%s",
                p->job, p->job_uid, p->shard, made.tag.incarnation,
                made.tag.sequence, counted_steps(&image->once.counted), path);
        made.once = image->once; // the report tells what the file holds
        image->once = (struct once){0};
        *out = made;
    }
    sl_free(path);
    return rc;
}

enum sl_err snap_write(struct fs *fs, const char *folder, struct shard *shard,
                       uint64_t incarnation, struct snap_written *out,
                       struct sl_error *err)
{
    struct shard_image image;
    enum sl_err rc = fs_mkdirs(fs, folder, err);

    if (rc != SL_OK)
        return rc;
    FAULT("snap.begin");
    rc = shard_freeze(shard, incarnation, &image, err);
    if (rc != SL_OK)
        return rc;
    rc = snap_write_image(fs, folder, &image, out, err);
    shard_image_release(&image);
    return rc;
}

void snap_written_release(struct snap_written *w)
{
    once_release(&w->once);
    *w = (struct snap_written){0};
}
