// SPDX-License-Identifier: Apache-2.0
// state/rows/rowset_image.c -- one instant of a set, and a set from one.
#include <inttypes.h>

#include "common/base/mem.h"
#include "state/base/finite.h"
#include "state/rows/rowset.h"
#include "state/rows/rowset_inner.h"

static struct row_store *rowset_store(struct rowset *r, enum rowset_part part)
{
    return part == ROWSET_ROWS ? &r->rows : &r->waiting;
}

size_t rowset_part_stride(const struct rowset *r, enum rowset_part part)
{
    return rowset_record_bytes(&r->spec, part);
}

void rowset_freeze(struct rowset *r, uint32_t version)
{
    row_store_freeze(&r->rows, version, 0);
    row_store_freeze(&r->waiting, version, 0);
}

void rowset_freeze_changed(struct rowset *r, uint32_t version, uint32_t since)
{
    row_store_freeze(&r->rows, version, since + 1);
    row_store_freeze(&r->waiting, version, since + 1);
}

bool rowset_is_frozen(const struct rowset *r)
{
    return r->rows.frozen;
}

uint64_t rowset_frozen(const struct rowset *r, enum rowset_part part)
{
    return part == ROWSET_ROWS ? r->rows.total : r->waiting.total;
}

bool rowset_walk(struct rowset *r, enum rowset_part part, size_t most,
                 void *out, size_t *n)
{
    return row_store_walk(rowset_store(r, part), most, out, n);
}

enum sl_err rowset_walked(const struct rowset *r, struct sl_error *err)
{
    const struct row_tier *t = r->rows.tier;

    if (t == NULL || t->walk_error.code == SL_OK)
        return SL_OK;
    return sl_fail(err, t->walk_error.code, "table %u: %s", r->spec.table,
                   t->walk_error.text);
}

void rowset_thaw(struct rowset *r)
{
    row_store_thaw(&r->rows);
    row_store_thaw(&r->waiting);
}

// ---- ids that went

void rowset_gone_begin(struct rowset *r)
{
    row_gone_begin(&r->rows.gone);
    if (rowset_waits(r))
        row_gone_begin(&r->waiting.gone);
}

static bool gone_known(const struct row_gone *g)
{
    return g->follows && !g->lost;
}

bool rowset_gone_known(const struct rowset *r)
{
    return gone_known(&r->rows.gone) &&
           (!rowset_waits(r) || gone_known(&r->waiting.gone));
}

void rowset_gone_seal(struct rowset *r)
{
    row_gone_seal(&r->rows.gone);
    row_gone_seal(&r->waiting.gone);
}

void rowset_gone_end(struct rowset *r, bool durable)
{
    void (*end)(struct row_gone * g) = durable ? row_gone_drop : row_gone_undo;

    end(&r->rows.gone);
    end(&r->waiting.gone);
}

static const struct row_gone *gone_of(const struct rowset *r,
                                      enum rowset_part part)
{
    return part == ROWSET_ROWS ? &r->rows.gone : &r->waiting.gone;
}

uint64_t rowset_gone(const struct rowset *r, enum rowset_part part)
{
    return gone_of(r, part)->sealed_count;
}

size_t rowset_gone_read(const struct rowset *r, enum rowset_part part,
                        struct rowset_gone_at *at, size_t most, uint64_t *ids)
{
    return row_gone_read(gone_of(r, part), at, most, ids);
}

// ---- a set from a snapshot

// Returns what is wrong with a record, or NULL.
static const char *wrong_record(const struct row_store *s,
                                const struct row_header *h, uint64_t hash,
                                uint32_t version, const uint8_t *values)
{
    size_t elements = (s->pool.stride - sizeof(*h)) / sizeof(float);

    if (row_store_bucket(s, hash) >= s->own)
        return "is of another shard";
    if (h->score == 0)
        return "has no updates";
    if (h->changed > version)
        return "was changed after the snapshot";
    if (!finite_all(WIRE_F32, values, elements))
        return "has a value that is not finite";
    if (row_store_find(s, hash, h->id) != ROW_NONE)
        return "stands there twice";
    return NULL;
}

// Returns true if there is place for a record; with `makes` it removes another
// for it, where there is one that is older.
static bool rowset_place(struct row_store *s, const struct row_header *h,
                         uint64_t hash, bool makes)
{
    uint32_t victim;

    if (s->count < s->limit)
        return true;
    victim = makes ? row_store_victim(s, hash, h->changed) : ROW_NONE;
    if (victim == ROW_NONE || row_store_at(s, victim)->changed > h->changed)
        return false;
    row_store_remove(s, victim);
    return true;
}

static enum sl_err rowset_add(struct rowset *r, enum rowset_part part,
                              uint32_t version, const uint8_t *record,
                              bool others, struct sl_error *err)
{
    struct row_store *s = rowset_store(r, part);
    struct row_header h;
    const char *wrong;
    enum sl_err rc;
    uint64_t hash;

    memcpy(&h, record, sizeof(h));
    hash = table_hash(h.id);
    if (others && row_store_bucket(s, hash) >= s->own)
        return SL_OK;
    wrong = wrong_record(s, &h, hash, version, record + sizeof(h));
    if (wrong == NULL && !rowset_place(s, &h, hash, others)) {
        if (others)
            return SL_OK;
        wrong = "is above the limit of rows";
    }
    if (wrong != NULL)
        return sl_fail(err, SL_ECORRUPT, "table %u: id %" PRIu64 " %s",
                       r->spec.table, h.id, wrong);
    rc = row_store_reserve(s, 1, &h.id, 0);
    if (rc != SL_OK)
        return sl_prefix(err, row_memory_refuse(r->spec.account, rc, err),
                         "table %u", r->spec.table);
    memcpy(row_store_at(s, row_store_add(s, hash, h.id)), record,
           s->pool.stride);
    if (part == ROWSET_ROWS)
        rowset_note_hot(r, &h);
    return SL_OK;
}

static enum sl_err rowset_add_all(struct rowset *r, enum rowset_part part,
                                  uint32_t version, size_t n,
                                  const void *records, bool others,
                                  struct sl_error *err)
{
    size_t stride = rowset_store(r, part)->pool.stride;
    const uint8_t *at = records;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < n; i++, at += stride)
        rc = rowset_add(r, part, version, at, others, err);
    return rc;
}

// Records that may lie in a file need no memory before they come.
enum sl_err rowset_expect(struct rowset *r, enum rowset_part part, uint64_t n)
{
    if (rowset_store(r, part)->tier != NULL)
        return SL_OK;
    return row_pool_reserve(&rowset_store(r, part)->pool, n);
}

enum sl_err rowset_put(struct rowset *r, enum rowset_part part,
                       uint32_t version, size_t n, const void *records,
                       struct sl_error *err)
{
    return rowset_add_all(r, part, version, n, records, false, err);
}

enum sl_err rowset_take(struct rowset *r, enum rowset_part part,
                        uint32_t version, size_t n, const void *records,
                        struct sl_error *err)
{
    return rowset_add_all(r, part, version, n, records, true, err);
}

// ---- rows that a job begins with

static bool rowset_has(const struct rowset *r, uint64_t id)
{
    return row_store_bucket(&r->rows, table_hash(id)) < r->rows.own;
}

uint64_t rowset_own(const struct rowset *r, size_t n, const void *ids)
{
    uint64_t own = 0;

    for (size_t i = 0; i < n; i++)
        own += rowset_has(r, table_id(ids, i));
    return own;
}

uint64_t rowset_room(const struct rowset *r)
{
    return r->rows.limit - r->rows.count;
}

enum sl_err rowset_start(struct rowset *r, size_t n, const void *ids,
                         const void *values, struct sl_error *err)
{
    size_t bytes = r->spec.dim * sizeof(float);
    struct row_header *h = sl_calloc(1, rowset_stride(r));
    enum sl_err rc = h == NULL ? sl_no_memory(err) : SL_OK;

    if (rc == SL_OK)
        row_rule_begin(&r->spec.rule, r->spec.dim,
                       rowset_values(h) + r->spec.dim);
    for (size_t i = 0; rc == SL_OK && i < n; i++) {
        *h = (struct row_header){.id = table_id(ids, i), .score = 1};
        memcpy(rowset_values(h), (const uint8_t *)values + i * bytes, bytes);
        if (rowset_has(r, h->id))
            rc = rowset_add(r, ROWSET_ROWS, 0, (const uint8_t *)h, false, err);
    }
    sl_free(h);
    return rc;
}
