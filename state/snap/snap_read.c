// SPDX-License-Identifier: Apache-2.0
// state/snap/snap_read.c -- the reader of a snapshot file, which believes
// nothing before it is checked.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base64.h"
#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/tensorfile.h"
#include "proto/table_chain.h"
#include "proto/table_rows.h"
#include "state/shard/counts.h"
#include "state/snap/snap.h"

enum sl_err snap_meta_u64(const struct tensorfile *f, const char *key, int base,
                          uint64_t *out, struct sl_error *err)
{
    const char *value = tensorfile_meta(f, key);
    unsigned long long n;
    char *end;

    if (value == NULL || value[0] < '0' || value[0] > 'f')
        return sl_fail(err, SL_ECORRUPT, "metadata has no %s", key);
    errno = 0;
    n = strtoull(value, &end, base);
    if (errno != 0 || *end != '\0')
        return sl_fail(err, SL_ECORRUPT, "metadata: %s is '%.40s'", key, value);
    *out = n;
    return SL_OK;
}

enum sl_err snap_meta_is(const struct tensorfile *f, const char *key, int base,
                         uint64_t want, struct sl_error *err)
{
    uint64_t got = 0;
    enum sl_err rc = snap_meta_u64(f, key, base, &got, err);

    if (rc != SL_OK)
        return rc;
    if (got != want)
        return sl_fail(err, SL_ECORRUPT,
                       "metadata: %s is %" PRIu64 ", not %" PRIu64, key, got,
                       want);
    return SL_OK;
}

static bool snap_is_delta(const struct tensorfile *f)
{
    const char *format = tensorfile_meta(f, SNAP_KEY_FORMAT);

    return format != NULL && strcmp(format, SNAP_FORMAT_DELTA) == 0;
}

// Checks that the file's format is one that we read.
static enum sl_err snap_check_format(const struct tensorfile *f,
                                     struct sl_error *err)
{
    const char *format = tensorfile_meta(f, SNAP_KEY_FORMAT);

    if (format == NULL)
        return sl_fail(err, SL_ECORRUPT, "metadata has no " SNAP_KEY_FORMAT);
    if (strcmp(format, SNAP_FORMAT) != 0 &&
        strcmp(format, SNAP_FORMAT_DELTA) != 0)
        return sl_fail(err, SL_ENOTSUP,
                       SNAP_KEY_FORMAT
                       " is '%.40s'; this psserver reads '" SNAP_FORMAT
                       "' and '" SNAP_FORMAT_DELTA "'",
                       format);
    if (snap_is_delta(f) != (tensorfile_meta(f, TABLE_CHAIN_KEY) != NULL))
        return sl_fail(err, SL_ECORRUPT,
                       "metadata: " SNAP_KEY_FORMAT " and " TABLE_CHAIN_KEY
                       " do not fit each other");
    return SL_OK;
}

enum sl_err snap_verify(const struct tensorfile *f, struct sl_error *err)
{
    enum sl_err rc = tensorfile_verify(f, err);

    if (rc == SL_ENOENT) // checksums are not optional here
        rc = SL_ECORRUPT;
    return rc == SL_OK ? snap_check_format(f, err) : rc;
}

// Checks that the file is this shard of this job, under its own tag.
static enum sl_err check_whose(const struct tensorfile *f, const struct plan *p,
                               struct wire_tag tag, struct sl_error *err)
{
    enum sl_err rc = snap_meta_is(f, SNAP_KEY_JOB_UID, 16, p->job_uid, err);

    if (rc == SL_OK)
        rc = snap_meta_is(f, SNAP_KEY_JOB, 10, p->job, err);
    if (rc == SL_OK)
        rc = snap_meta_is(f, SNAP_KEY_SHARD, 10, p->shard, err);
    if (rc == SL_OK)
        rc = snap_meta_is(f, SNAP_KEY_INCARNATION, 10, tag.incarnation, err);
    if (rc == SL_OK)
        rc = snap_meta_is(f, SNAP_KEY_SEQUENCE, 10, tag.sequence, err);
    return rc;
}

// Checks one tensor's type, shape, and place, which is that of the piece in
// memory.
static enum sl_err check_tensor(const struct tensorfile *f,
                                const struct plan *p,
                                const struct plan_piece *piece, unsigned k,
                                struct sl_error *err)
{
    uint64_t begin = (k * p->elements + piece->first) * sizeof(float);
    const struct tensor_info *t;
    struct buf name = BUF_INIT;
    bool fits;

    if (buf_append_str(&name, piece->name) != SL_OK ||
        (k > 0 && buf_appendf(&name, "#%s",
                              optim_slot_name(&p->optim, k - 1)) != SL_OK)) {
        buf_release(&name);
        return sl_no_memory(err);
    }
    t = tensorfile_find(f, buf_text(&name));
    fits = t != NULL && t->dtype == TENSOR_F32 && t->rank == piece->rank &&
           memcmp(t->shape, piece->shape, piece->rank * sizeof(t->shape[0])) ==
               0 &&
           t->begin == begin &&
           t->end == begin + piece->elements * sizeof(float);
    if (!fits)
        sl_fail(err, SL_ECORRUPT,
                "tensor %s is missing, or is of another shard",
                buf_text(&name));
    buf_release(&name);
    return fits ? SL_OK : SL_ECORRUPT;
}

static enum sl_err snap_check_rows(const struct tensorfile *f,
                                   const struct plan_piece *piece,
                                   struct sl_error *err)
{
    struct buf key = BUF_INIT, want = BUF_INIT;
    const char *got;
    enum sl_err rc;

    rc = buf_appendf(&key, SNAP_KEY_ROWS "%s", piece->name);
    if (rc == SL_OK)
        rc = buf_appendf(&want, "%" PRIu64 ":%" PRIu64, piece->first_row,
                         piece->rows);
    if (rc == SL_OK) {
        got = tensorfile_meta(f, buf_text(&key));
        if (got == NULL || strcmp(got, buf_text(&want)) != 0)
            rc = sl_fail(err, SL_ECORRUPT, "metadata: %s is %.40s, not %s",
                         buf_text(&key), got == NULL ? "missing" : got,
                         buf_text(&want));
    }
    buf_release(&key);
    buf_release(&want);
    return rc;
}

// Returns the records of a table's part, which have as many bytes each as this
// shard's; NULL: there are none.
static const struct tensor_info *records_of(const struct tensorfile *f,
                                            const struct plan *p, size_t table,
                                            enum rowset_part part,
                                            struct sl_error *err)
{
    const char *prefix = snap_is_delta(f) ? table_changed_prefix[part]
                                          : table_whole_prefix[part];
    const char *name = p->tables[table].name;
    const struct tensor_info *t = table_rows_find(f, prefix, name);
    size_t stride = rowset_record_bytes(&p->tables[table].spec, part);

    if (t != NULL && t->shape[1] == stride)
        return t;
    sl_fail(err, SL_ECORRUPT,
            "tensor %s%s is missing, or has no records of %zu bytes", prefix,
            name, stride);
    return NULL;
}

// Returns the vectors of moments that a file has.
static unsigned snap_moments_count(const struct tensorfile *f,
                                   const struct plan *p)
{
    return tensorfile_meta(f, SNAP_KEY_MOMENTS) != NULL ? p->moments : 0;
}

// Returns vector k of the moments; NULL: it is not there, or of another shard.
static const struct tensor_info *snap_moments_find(const struct tensorfile *f,
                                                   const struct plan *p,
                                                   unsigned k,
                                                   struct sl_error *err)
{
    char name[sizeof(SNAP_MOMENTS) + 12];
    const struct tensor_info *t;

    snprintf(name, sizeof(name), SNAP_MOMENTS "%u", k);
    t = tensorfile_find(f, name);
    if (t != NULL && t->dtype == snap_moments_dtype(p) && t->rank == 1 &&
        t->shape[0] == p->elements)
        return t;
    sl_fail(err, SL_ECORRUPT, "tensor %s is missing, or is of another shard",
            name);
    return NULL;
}

static enum sl_err check_tensors(const struct tensorfile *f,
                                 const struct plan *p, struct sl_error *err)
{
    unsigned matrices = 1 + optim_slots(&p->optim);
    size_t each = snap_is_delta(f) ? SNAP_TABLE_TENSORS : ROWSET_PARTS;
    unsigned moments = snap_moments_count(f, p);
    size_t tensors =
        matrices * p->piece_count + each * p->table_count + moments;
    enum sl_err rc = SL_OK;

    if (tensorfile_count(f) != tensors)
        return sl_fail(err, SL_ECORRUPT, "%zu tensors, not %zu",
                       tensorfile_count(f), tensors);
    for (size_t i = 0; i < ROWSET_PARTS * p->table_count; i++)
        if (records_of(f, p, i / ROWSET_PARTS,
                       (enum rowset_part)(i % ROWSET_PARTS), err) == NULL)
            return SL_ECORRUPT;
    for (unsigned k = 0; k < moments; k++)
        if (snap_moments_find(f, p, k, err) == NULL)
            return SL_ECORRUPT;
    for (size_t i = 0; rc == SL_OK && i < p->piece_count; i++) {
        rc = snap_check_rows(f, &p->pieces[i], err);
        for (unsigned k = 0; rc == SL_OK && k < matrices; k++)
            rc = check_tensor(f, p, &p->pieces[i], k, err);
    }
    return rc;
}

// Opens a file and checks all of it but the counted set. On success the first
// byte of data is the first of the shard's memory. Mapped is what stays open
// for answers.
static enum sl_err open_checked(struct fs *fs, const char *folder,
                                const struct plan *p, struct wire_tag tag,
                                bool mapped, struct tensorfile **out,
                                struct sl_error *err)
{
    char name[SNAP_NAME_BYTES];
    struct tensorfile *f = NULL;
    char *path;
    enum sl_err rc;

    snap_file_name(name, p->shard, tag);
    path = fs_join(folder, name);
    if (path == NULL)
        return sl_no_memory(err);
    rc = mapped ? tensorfile_open(&f, fs, path, SNAP_HEADER_MAX, err)
                : tensorfile_open_unmapped(&f, fs, path, SNAP_HEADER_MAX, err);
    sl_free(path);
    if (rc != SL_OK)
        return rc;
    rc = snap_verify(f, err);
    if (rc == SL_OK)
        rc = check_whose(f, p, tag, err);
    if (rc == SL_OK)
        rc = check_tensors(f, p, err);
    if (rc != SL_OK) {
        tensorfile_close(f);
        return sl_prefix(err, rc, "%s", name);
    }
    *out = f;
    return SL_OK;
}

// Returns the first byte of the values; NULL if the shard has rows alone.
static const void *first_byte(const struct tensorfile *f, const struct plan *p)
{
    if (p->piece_count == 0)
        return NULL;
    return tensorfile_data(f, tensorfile_find(f, p->pieces[0].name));
}

// The bytes of a metadata key that holds base64.
static enum sl_err meta_bytes(const struct tensorfile *f, const char *key,
                              struct buf *out, struct sl_error *err)
{
    const char *value = tensorfile_meta(f, key);
    enum sl_err rc =
        value == NULL ? SL_ECORRUPT : base64_decode(out, value, strlen(value));

    if (rc == SL_ENOMEM)
        return sl_no_memory(err);
    return rc == SL_OK ? rc
                       : sl_fail(err, SL_ECORRUPT,
                                 "metadata: %s is missing or no base64", key);
}

static enum sl_err passed_of(const struct tensorfile *f, const char *variable,
                             uint64_t *out, struct sl_error *err)
{
    struct buf key = BUF_INIT;
    enum sl_err rc = buf_appendf(&key, SNAP_KEY_PASSED "%s", variable);

    *out = 0;
    if (rc == SL_OK && tensorfile_meta(f, buf_text(&key)) != NULL)
        rc = snap_meta_u64(f, buf_text(&key), 10, out, err);
    buf_release(&key);
    return rc;
}

// Reads the passed updates of each piece, which most files do not have.
static enum sl_err read_passed(const struct tensorfile *f, const struct plan *p,
                               struct once *o, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    uint64_t passed;

    for (size_t i = 0; rc == SL_OK && i < p->piece_count; i++) {
        rc = passed_of(f, p->pieces[i].name, &passed, err);
        if (rc == SL_OK && passed > 0)
            rc = once_reserve_passed(o, p->piece_count);
        if (rc == SL_OK && passed > 0)
            o->passed[i] = passed;
    }
    return rc == SL_OK ? once_check(o, err) : rc;
}

enum sl_err snap_read_once(const struct tensorfile *f, const struct plan *p,
                           struct once *out, struct sl_error *err)
{
    struct buf set_bytes = BUF_INIT, counts_bytes = BUF_INIT;
    Sluice__V1__ShardCounts *counts;
    Sluice__V1__CountedSet *set;
    struct wire_arena *arena = sl_malloc(sizeof(*arena));
    struct sl_slices all;
    struct sl_slice one;
    enum sl_err rc;

    if (arena == NULL)
        return sl_no_memory(err);
    wire_arena_init(arena);
    rc = meta_bytes(f, SNAP_KEY_COUNTED, &set_bytes, err);
    if (rc == SL_OK)
        rc = meta_bytes(f, SNAP_KEY_COUNTS, &counts_bytes, err);
    if (rc == SL_OK) {
        one = (struct sl_slice){set_bytes.data, set_bytes.len};
        all = slices_one(&one);
        rc = wire_unpack_counted_set(&set, arena, &all, err);
    }
    if (rc == SL_OK) {
        one = (struct sl_slice){counts_bytes.data, counts_bytes.len};
        all = slices_one(&one);
        rc = wire_unpack_shard_counts(&counts, arena, &all, err);
    }
    if (rc == SL_OK)
        rc = counts_read(out, &p->schedule, set, counts, err);
    if (rc == SL_OK) {
        rc = snap_meta_is(f, SNAP_KEY_VERSION, 10, once_version(out), err);
        if (rc == SL_OK)
            rc = read_passed(f, p, out, err);
        if (rc != SL_OK)
            once_release(out);
    }
    wire_arena_release(arena);
    sl_free(arena);
    buf_release(&set_bytes);
    buf_release(&counts_bytes);
    return rc;
}

static enum sl_err snap_measure_file(struct fs *fs, const char *folder,
                                     struct snap_written *w,
                                     struct sl_error *err)
{
    char *path = fs_join(folder, w->file);
    struct fs_stat stat = {0};
    enum sl_err rc = SL_ENOMEM;

    if (path != NULL)
        rc = fs_stat_path(fs, path, &stat, err);
    if (rc == SL_OK)
        rc = sha256_file(fs, path, w->sha256, err);
    w->bytes = stat.bytes;
    sl_free(path);
    return rc;
}

enum sl_err snap_written_find(struct fs *fs, const char *folder,
                              const struct plan *plan, struct wire_tag tag,
                              struct snap_written *out, struct sl_error *err)
{
    struct snap_written made = {.tag = tag};
    struct tensorfile *f = NULL;
    enum sl_err rc = open_checked(fs, folder, plan, tag, false, &f, err);

    if (rc != SL_OK)
        return rc;
    snap_file_name(made.file, plan->shard, tag);
    rc = snap_read_once(f, plan, &made.once, err);
    tensorfile_close(f);
    if (rc != SL_OK)
        return rc;
    rc = snap_measure_file(fs, folder, &made, err);
    // K2: its writer may have failed, or died, before its name was durable.
    if (rc == SL_OK)
        rc = fs_sync_dir(fs, folder, err);
    if (rc == SL_OK)
        *out = made;
    else
        snap_written_release(&made);
    return rc;
}

// I6: a snapshot of another incarnation of the job is another past, unless it
// is the very one that the cut names to which the job was restored.
static enum sl_err check_incarnation(const struct tensorfile *f,
                                     const struct plan *p, struct wire_tag tag,
                                     struct wire_tag at_least,
                                     struct sl_error *err)
{
    uint64_t incarnation;
    enum sl_err rc =
        snap_meta_u64(f, SNAP_KEY_JOB_INCARNATION, 10, &incarnation, err);

    if (rc != SL_OK || wire_tag_cmp(tag, at_least) == 0)
        return rc;
    if (incarnation != p->job_incarnation)
        return sl_fail(err, SL_ESTALE,
                       "the file is of incarnation %" PRIu64
                       " of the job, which is at %" PRIu64,
                       incarnation, p->job_incarnation);
    return SL_OK;
}

// Matrix after matrix, piece after piece, each at its place in memory. After an
// error the memory is neither the seed nor a snapshot.
static enum sl_err read_memory(const struct tensorfile *f, struct shard *shard,
                               struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < tensorfile_count(f); i++) {
        const struct tensor_info *t = tensorfile_at(f, i);
        size_t n;

        if (t->begin >= shard_bytes(shard))
            continue; // records of a table, or moments

        for (uint64_t at = t->begin; rc == SL_OK && at < t->end; at += n) {
            void *to = shard_memory_at(shard, (size_t)at, &n);

            n = (size_t)sl_min(n, t->end - at);
            rc = tensorfile_read(f, t, at - t->begin, to, n, err);
        }
    }
    return rc;
}

// The live records of all parts of a shard's tables, in a snapshot and what is
// below it (T10).
struct snap_tables {
    struct shard *shard;
    struct table_live *live; // owned: part by part of each table
    size_t count;
    uint8_t *space; // owned: of SNAP_RECORDS records
};

static void snap_tables_release(struct snap_tables *t)
{
    for (size_t i = 0; i < t->count; i++)
        table_live_release(&t->live[i]);
    sl_free(t->live);
    sl_free(t->space);
}

static enum sl_err snap_tables_init(struct snap_tables *t,
                                    const struct table_chain *chain,
                                    struct shard *shard, struct sl_error *err)
{
    size_t parts = ROWSET_PARTS * shard->tables.count;
    enum sl_err rc = SL_OK;

    *t = (struct snap_tables){.shard = shard};
    t->live = sl_calloc(parts, sizeof(*t->live));
    t->space = sl_malloc(snap_records_bytes(shard));
    if (t->live == NULL || t->space == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; rc == SL_OK && i < parts; i++) {
        size_t table = i / ROWSET_PARTS, part = i % ROWSET_PARTS;

        if (records_of(chain->top, &shard->plan, table, (enum rowset_part)part,
                       err) == NULL)
            return SL_ECORRUPT;
        rc = table_live_init(&t->live[i], chain, (unsigned)part,
                             shard->plan.tables[table].name, err);
        t->count += rc == SL_OK;
    }
    return rc;
}

// Adds live records; of another job's files those that are of this shard.
static enum sl_err read_part(struct snap_tables *t, size_t number,
                             uint32_t version, bool others,
                             struct sl_error *err)
{
    struct rowset *set = t->shard->tables.sets[number / ROWSET_PARTS];
    enum rowset_part part = (enum rowset_part)(number % ROWSET_PARTS);
    size_t bytes = t->live[number].record_bytes;
    struct table_live_at at = {0};
    struct table_run run;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK &&
           table_live_next(&t->live[number], &at, SNAP_RECORDS, &run)) {
        rc = tensorfile_read(run.segment->file, run.segment->tensor,
                             run.first * bytes, t->space, run.n * bytes, err);
        if (rc == SL_OK)
            rc = others ? rowset_take(set, part, version, run.n, t->space, err)
                        : rowset_put(set, part, version, run.n, t->space, err);
    }
    return rc;
}

// Takes memory for all records before any of them is read, so that a file which
// does not fit keeps none from other shards meanwhile.
static enum sl_err expect_tables(struct snap_tables *t, struct sl_error *err)
{
    struct tables *tables = &t->shard->tables;
    enum sl_err rc;

    for (size_t i = 0; i < t->count; i++) {
        size_t table = i / ROWSET_PARTS;

        rc = rowset_expect(tables->sets[table],
                           (enum rowset_part)(i % ROWSET_PARTS),
                           t->live[i].records);
        if (rc != SL_OK)
            return sl_prefix(err, row_memory_refuse(tables->account, rc, err),
                             "table %s with %" PRIu64 " records",
                             t->shard->plan.tables[table].name,
                             t->live[i].records);
    }
    return SL_OK;
}

// Returns true if the file has a tensor of any table, whole or of a delta:
// parts of a ring have none. No variable's name begins as theirs do.
static bool snap_has_tables(const struct tensorfile *f)
{
    size_t i = 0;

    while (i < tensorfile_count(f) &&
           tensorfile_at(f, i)->name[0] != TABLE_ROWS_TENSOR[0])
        i++;
    return i < tensorfile_count(f);
}

enum sl_err snap_read_tables(const struct table_chain *chain,
                             struct shard *shard, uint64_t version, bool others,
                             struct sl_error *err)
{
    struct snap_tables t;
    enum sl_err rc;

    if (shard->tables.count == 0 || (others && !snap_has_tables(chain->top)))
        return SL_OK;
    rc = snap_tables_init(&t, chain, shard, err);
    if (rc == SL_OK && !others)
        rc = expect_tables(&t, err);
    for (size_t i = 0; rc == SL_OK && i < t.count; i++)
        rc = read_part(&t, i, (uint32_t)version, others, err);
    snap_tables_release(&t);
    return rc == SL_ERANGE || rc == SL_EBUSY ? SL_ENOMEM : rc;
}

// Reads the moments of a file, if it has some (L9).
static enum sl_err snap_read_moments(const struct tensorfile *f,
                                     struct shard *shard, struct sl_error *err)
{
    const struct plan *p = &shard->plan;
    unsigned count = snap_moments_count(f, p);
    size_t each = plan_wire_bytes(p, p->moments_wire);
    enum sl_err rc = SL_OK;
    struct moments_set *m;
    uint64_t of = 0, t = 0;

    if (count == 0)
        return SL_OK;
    rc = snap_meta_u64(f, SNAP_KEY_MOMENTS_OF, 10, &of, err);
    if (rc == SL_OK)
        rc = snap_meta_u64(f, SNAP_KEY_MOMENTS, 10, &t, err);
    if (rc != SL_OK || t == 0)
        return SL_ECORRUPT;
    m = moments_new(p, of, t);
    if (m == NULL)
        return sl_no_memory(err);
    for (unsigned k = 0; rc == SL_OK && k < count; k++)
        rc = tensorfile_read(f, snap_moments_find(f, p, k, err), 0,
                             m->data + k * each, each, err);
    moments_unref(shard->moments.kept);
    shard->moments.kept = rc == SL_OK ? m : NULL;
    if (rc != SL_OK)
        moments_unref(m);
    return rc;
}

// Reads all that a shard's memory holds. SL_ENOMEM, also if its rows may not
// take so much. SL_ECANCELED: the file passed its checks, and was then cut
// short.
static enum sl_err snap_read_all(const struct table_chain *chain,
                                 struct shard *shard, const struct once *once,
                                 struct sl_error *err)
{
    enum sl_err rc = read_memory(chain->top, shard, err);

    if (rc == SL_OK)
        rc = snap_read_tables(chain, shard, once_version(once), false, err);
    if (rc == SL_OK)
        rc = snap_read_moments(chain->top, shard, err);
    if (rc == SL_ENOMEM)
        return rc; // the file is good, so no older one will do
    return rc == SL_OK ? SL_OK : SL_ECANCELED;
}

enum sl_err snap_read(struct fs *fs, const char *folder, struct wire_tag tag,
                      struct wire_tag at_least, struct shard *shard,
                      struct sl_error *err)
{
    const struct plan *p = &shard->plan;
    struct tensorfile *f = NULL;
    struct table_chain chain = {0};
    struct once once = {0};
    enum sl_err rc = open_checked(fs, folder, p, tag, false, &f, err);

    if (rc != SL_OK)
        return rc;
    FAULT("snap_read.header");
    rc = check_incarnation(f, p, tag, at_least, err);
    if (rc == SL_OK)
        rc = snap_read_once(f, p, &once, err);
    if (rc == SL_OK)
        rc = table_chain_open(&chain, f, fs, folder, false, err);
    if (rc == SL_OK)
        rc = snap_read_all(&chain, shard, &once, err);
    if (rc == SL_OK) {
        // Everything held. The set comes with the values that contain it.
        once_release(&shard->once);
        shard->once = once;
        shard->from = tag;
        FAULT("snap_read.data");
    } else {
        once_release(&once);
    }
    table_chain_close(&chain);
    tensorfile_close(f);
    return rc;
}

enum sl_err snap_values(struct fs *fs, const char *folder,
                        const struct plan *plan, struct wire_tag tag,
                        struct tagged_file **out, struct sl_error *err)
{
    struct tagged_file *made = sl_calloc(1, sizeof(*made));
    enum sl_err rc;

    if (made == NULL)
        return sl_no_memory(err);
    atomic_init(&made->refs, 1);
    rc = open_checked(fs, folder, plan, tag, true, &made->file, err);
    if (rc == SL_OK)
        rc = snap_meta_u64(made->file, SNAP_KEY_VERSION, 10, &made->version,
                           err);
    if (rc == SL_OK)
        rc = tagged_file_tables(made, fs, folder, err);
    if (rc != SL_OK) {
        tagged_file_unref(made);
        return rc;
    }
    made->values = first_byte(made->file, plan);
    made->bytes = plan_values_bytes(plan);
    made->tag = tag;
    *out = made;
    return SL_OK;
}
