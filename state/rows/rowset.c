// SPDX-License-Identifier: Apache-2.0
// state/rows/rowset.c -- a set's beginning and end, reads, and the checks of a
// push.
#include "state/rows/rowset.h"

#include <inttypes.h>
#include <math.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "state/base/element.h"
#include "state/base/finite.h"
#include "state/rows/rowset_inner.h"

static enum sl_err check_numbers(const struct rowset_spec *s,
                                 struct sl_error *err)
{
    if (s->dim < 1 || s->dim > TABLE_DIM_MOST)
        return sl_fail(err, SL_EINVAL, "table %u: dim is %u, not in [1, %d]",
                       s->table, s->dim, TABLE_DIM_MOST);
    if (s->buckets < 1 || s->buckets > TABLE_BUCKETS_MOST)
        return sl_fail(err, SL_EINVAL,
                       "table %u: it has %u buckets; 1 to %d are possible",
                       s->table, s->buckets, TABLE_BUCKETS_MOST);
    if (s->shard >= s->shards)
        return sl_fail(err, SL_EINVAL, "table %u: shard %u of %u", s->table,
                       s->shard, s->shards);
    if (!(s->probability > 0 && s->probability <= 1))
        return sl_fail(err, SL_EINVAL,
                       "table %u: probability is %g, not in (0, 1]", s->table,
                       s->probability);
    if (!(s->least_norm >= 0 && s->least_norm < INFINITY) ||
        !(s->scale >= 0 && s->scale < INFINITY))
        return sl_fail(err, SL_EINVAL,
                       "table %u: least norm %g, scale %g: not in [0, inf)",
                       s->table, s->least_norm, s->scale);
    return SL_OK;
}

enum sl_err rowset_check_spec(const struct rowset_spec *s, struct sl_error *err)
{
    enum sl_err rc = check_numbers(s, err);

    if (rc == SL_OK && (rc = row_rule_check(&s->rule, err)) != SL_OK)
        return sl_prefix(err, rc, "table %u", s->table);
    return rc;
}

static size_t stride_of(const struct rowset_spec *s)
{
    size_t bytes = sizeof(struct row_header) +
                   sizeof(float) * (s->dim + row_rule_slots(&s->rule, s->dim));

    return (bytes + 7) / 8 * 8;
}

// The shard's part of max_rows, but one at least: a table may have fewer rows
// than buckets.
static uint32_t limit_of(const struct rowset_spec *s)
{
    uint64_t part = table_part(s->max_rows, s->shard, s->buckets, s->shards);

    if (s->max_rows == 0 || part > TABLE_ROWS_MOST)
        return TABLE_ROWS_MOST;
    return part == 0 ? 1 : (uint32_t)part;
}

static enum sl_err rowset_make(struct rowset *r)
{
    const struct rowset_spec *s = &r->spec;
    uint32_t first = table_first(s->shard, s->buckets, s->shards);
    uint32_t own = table_first(s->shard + 1, s->buckets, s->shards) - first;
    uint32_t limit = limit_of(s);
    enum sl_err rc = row_store_init(&r->rows, stride_of(s), first, own,
                                    s->buckets, limit, s->account);

    if (rc == SL_OK && row_disk_is_on() && s->account != NULL &&
        stride_of(s) > ROW_COLD_BYTES)
        rc = row_tier_new(&r->rows, s->dim, s->least_norm);
    if (rc == SL_OK && rowset_waits(r))
        rc = row_store_init(&r->waiting, sizeof(struct row_header), first, own,
                            s->buckets, limit, s->account);
    r->gradient = sl_malloc_array(s->dim, sizeof(*r->gradient));
    return r->gradient == NULL ? SL_ENOMEM : rc;
}

enum sl_err rowset_new(struct rowset **out, const struct rowset_spec *spec,
                       struct sl_error *err)
{
    enum sl_err rc = rowset_check_spec(spec, err);
    struct rowset *r;

    if (rc != SL_OK)
        return rc;
    r = sl_calloc(1, sizeof(*r));
    if (r == NULL)
        return sl_no_memory(err);
    r->spec = *spec;
    r->seed = sl_mix64(spec->seed ^ sl_mix64(spec->table + UINT64_C(1)));
    rc = rowset_make(r);
    if (rc != SL_OK) {
        rowset_free(r);
        (void)row_memory_refuse(spec->account, rc, err);
        return sl_prefix(err, SL_ENOMEM, "table %u", spec->table);
    }
    *out = r;
    return SL_OK;
}

void rowset_free(struct rowset *r)
{
    if (r == NULL)
        return;
    row_store_release(&r->rows);
    row_store_release(&r->waiting);
    sl_free(r->gradient);
    sl_free(r->absent);
    sl_free(r);
}

size_t rowset_record_bytes(const struct rowset_spec *spec,
                           enum rowset_part part)
{
    return part == ROWSET_ROWS ? stride_of(spec) : sizeof(struct row_header);
}

size_t rowset_stride(const struct rowset *r)
{
    return r->rows.pool.stride;
}

void rowset_counts(const struct rowset *r, struct rowset_counts *out)
{
    *out = r->counts;
    out->rows = r->rows.count;
    out->waiting = r->waiting.count;
    out->largest = r->rows.largest;
    out->bytes = row_store_bytes(&r->rows) + row_store_bytes(&r->waiting);
    if (r->rows.tier == NULL)
        return;
    out->cold = row_tier_count(r->rows.tier) - r->rows.tier->left;
    out->file_bytes = row_tier_file_bytes(r->rows.tier);
    out->cooled = r->rows.tier->cooled;
}

// ---- reads

// A stream for each id, and a seed for each table: no two rows of a job share
// their draws.
void rowset_first(const struct rowset *r, uint64_t id, float *values)
{
    initial_fill(values, &r->spec.initial, r->seed, id, 0, r->spec.dim);
}

size_t rowset_look(struct rowset *r, size_t n, const void *ids, float *values,
                   struct rowset_miss *miss)
{
    struct row_store *s = &r->rows;
    const uint32_t *number;
    struct row_finder f;
    size_t part, missed = 0, at = 0, found = 0;

    row_finder_init(&f, s, n, ids);
    while ((part = row_finder_next(&f, &number)) > 0)
        for (size_t i = 0; i < part; i++, at++, values += r->spec.dim) {
            if (number[i] == ROW_NONE) {
                rowset_first(r, table_id(ids, at), values);
                continue;
            }
            found++;
            if (row_store_is_cold(s, number[i]))
                miss[missed++] = (struct rowset_miss){
                    (uint32_t)at, number[i] - ROW_COLD,
                    row_tier_at(s->tier, number[i])->check};
            else
                memcpy(values, row_store_at(s, number[i]) + 1,
                       r->spec.dim * sizeof(*values));
        }
    if (s->tier != NULL) {
        r->counts.hits += found - missed;
        r->counts.misses += missed;
    }
    return missed;
}

// Takes the rows that were read for `n` misses; keeps those that were not
// written as they were found, in front of *left others.
static void take_missed(const struct rowset *r, size_t n,
                        const struct rowset_miss *from, const uint8_t *record,
                        float *values, struct rowset_miss *kept, size_t *left)
{
    size_t stride = r->rows.pool.stride, dim = r->spec.dim;

    for (size_t i = 0; i < n; i++, record += stride) {
        struct rowset_miss m = from[i];

        if (row_check(record, stride) != m.check)
            kept[(*left)++] = m;
        else
            memcpy(values + m.place * dim, record + sizeof(struct row_header),
                   dim * sizeof(*values));
    }
}

#define FETCH_BYTES ((size_t)1 << 18) // of records that are read at once

enum sl_err rowset_fetch(const struct rowset *r, size_t n,
                         struct rowset_miss *miss, float *values, size_t *left,
                         struct sl_error *err)
{
    size_t stride = r->rows.pool.stride, batch = FETCH_BYTES / stride + 1, k;
    uint8_t *space;
    struct row_io *io;
    enum sl_err rc = SL_OK;

    *left = 0;
    if (n == 0)
        return SL_OK;
    batch = sl_min(batch, n);
    space = sl_malloc_array(batch, stride);
    io = sl_malloc_array(batch, sizeof(*io));
    if (space == NULL || io == NULL)
        rc = sl_no_memory(err);
    for (size_t at = 0; rc == SL_OK && at < n; at += k) {
        k = sl_min(n - at, batch);
        for (size_t i = 0; i < k; i++)
            io[i] = (struct row_io){miss[at + i].slot, space + i * stride};
        rc = row_file_read(r->rows.tier->file, k, io, err);
        if (rc == SL_OK)
            take_missed(r, k, miss + at, space, values, miss, left);
    }
    sl_free(space);
    sl_free(io);
    return rc;
}

enum sl_err rowset_read(struct rowset *r, size_t n, const void *ids,
                        float *values, struct sl_error *err)
{
    struct rowset_miss *miss;
    enum sl_err rc;
    size_t missed, left;

    if (r->rows.tier == NULL) { // none is missed
        (void)rowset_look(r, n, ids, values, NULL);
        return SL_OK;
    }
    miss = sl_malloc_array(n + 1, sizeof(*miss));
    if (miss == NULL)
        return sl_no_memory(err);
    missed = rowset_look(r, n, ids, values, miss);
    rc = rowset_fetch(r, missed, miss, values, &left, err);
    if (rc == SL_OK && left > 0)
        rc = row_file_changed(r->rows.tier->file, miss[0].slot,
                              table_id(ids, miss[0].place), err);
    sl_free(miss);
    return rc;
}

// ---- the checks of a push

static enum sl_err refuse_order(const struct rowset *r, const void *ids,
                                size_t i, struct sl_error *err)
{
    uint64_t id = table_id(ids, i), before = table_id(ids, i - 1);

    if (id == before)
        return sl_fail(err, SL_EINVAL,
                       "table %u: id %" PRIu64 " stands there twice; send the "
                       "sum of its gradients once",
                       r->spec.table, id);
    return sl_fail(err, SL_EINVAL,
                   "table %u: id %" PRIu64 " comes behind id %" PRIu64
                   ", which has a higher hash; sort ids by their hashes",
                   r->spec.table, id, before);
}

static enum sl_err check_order(const struct rowset *r, size_t n,
                               const void *ids, struct sl_error *err)
{
    const struct rowset_spec *s = &r->spec;
    uint64_t hash, before = 0;

    for (size_t i = 0; i < n; i++, before = hash) {
        hash = table_hash(table_id(ids, i));
        if (i > 0 && hash <= before)
            return refuse_order(r, ids, i, err);
        if (row_store_bucket(&r->rows, hash) < r->rows.own)
            continue;
        return sl_fail(
            err, SL_EINVAL, "table %u: id %" PRIu64 " is of shard %u, not %u",
            s->table, table_id(ids, i),
            table_shard(table_bucket(hash, s->buckets), s->buckets, s->shards),
            s->shard);
    }
    return SL_OK;
}

enum sl_err rowset_check(const struct rowset *r, size_t n, const void *ids,
                         enum wire_type type, const void *grads,
                         struct sl_error *err)
{
    enum sl_err rc = check_order(r, n, ids, err);
    size_t i = rc != SL_OK || grads == NULL
                   ? n
                   : finite_find_row(type, grads, n, r->spec.dim);

    if (i == n)
        return rc;
    return sl_fail(err, SL_ENUMERIC,
                   "table %u: the gradient of id %" PRIu64
                   " is not finite; nothing was applied (push it with `skip` "
                   "to count the step)",
                   r->spec.table, table_id(ids, i));
}
