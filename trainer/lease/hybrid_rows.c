// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid_rows.c -- see hybrid_rows.h.
#include "trainer/lease/hybrid_rows.h"

#include <endian.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "trainer/push/distinct.h"

// A table in the micro-batch under way.
struct rows_of_table {
    struct distinct mine; // our ids
    size_t count;         // ids of all members, in their order
    size_t own;           // place of our first one among them
};

struct hybrid_rows {
    struct job_tables *tables;
    uint32_t count, shards;
    enum wire_type wire;
    struct rows_of_table *table;
    uint64_t *words; // counts of all members, and then ids
    size_t words_most;
    float *space; // rows of our ids
    size_t space_most;
    float whole; // 1: the leader has the rows
    bool keeps;  // all rows of this step
};

enum sl_err hybrid_rows_new(struct hybrid_rows **out, struct job_tables *tables,
                            uint32_t shards, enum wire_type wire,
                            struct sl_error *err)
{
    struct hybrid_rows *r = sl_calloc(1, sizeof(*r));

    if (r == NULL)
        return sl_no_memory(err);
    r->tables = tables;
    r->count = job_tables_count(tables);
    r->shards = shards;
    r->wire = wire;
    r->table = sl_calloc(r->count, sizeof(*r->table));
    if (r->table == NULL) {
        hybrid_rows_free(r);
        return sl_no_memory(err);
    }
    *out = r;
    return SL_OK;
}

void hybrid_rows_free(struct hybrid_rows *r)
{
    if (r == NULL)
        return;
    for (uint32_t i = 0; r->table != NULL && i < r->count; i++)
        distinct_release(&r->table[i].mine);
    sl_free(r->table);
    sl_free(r->words);
    sl_free(r->space);
    sl_free(r);
}

struct job_tables *hybrid_rows_tables(struct hybrid_rows *r)
{
    return r != NULL ? r->tables : NULL;
}

void hybrid_rows_begin(struct hybrid_rows *r)
{
    if (r == NULL)
        return;
    job_tables_begin(r->tables);
    job_tables_unkeep(r->tables);
    r->keeps = false;
}

void hybrid_rows_keep(struct hybrid_rows *r)
{
    if (r != NULL)
        r->keeps = true;
}

// ---- which ids

// Makes space for `n` words, all 0.
static enum sl_err words_clear(struct hybrid_rows *r, size_t n,
                               struct sl_error *err)
{
    if (n > r->words_most) {
        sl_free(r->words);
        r->words_most = 0;
        r->words = sl_malloc_array(n, sizeof(*r->words));
        if (r->words == NULL)
            return sl_fail(err, SL_ENOMEM, "no memory for %zu ids of a group",
                           n);
        r->words_most = n;
    }
    if (n > 0)
        memset(r->words, 0, n * sizeof(*r->words));
    return SL_OK;
}

static enum sl_err rows_mine(struct hybrid_rows *r,
                             const struct hybrid_ids *mine,
                             struct sl_error *err)
{
    static const struct hybrid_ids none;
    enum sl_err rc = SL_OK;
    size_t most = 0;

    for (uint32_t i = 0; rc == SL_OK && i < r->count; i++) {
        struct distinct *d = &r->table[i].mine;
        const struct hybrid_ids *ids = mine != NULL ? &mine[i] : &none;
        size_t elements;

        rc = distinct_make(d, ids->count, ids->ids, 1, 1, err);
        elements = (size_t)d->count * job_tables_dim(r->tables, i);
        most = elements > most ? elements : most;
    }
    if (rc != SL_OK || most <= r->space_most)
        return rc;
    sl_free(r->space);
    r->space_most = 0;
    r->space = sl_malloc_array(most, sizeof(*r->space));
    if (r->space == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for %zu elements of rows",
                       most);
    r->space_most = most;
    return SL_OK;
}

// Sets where the ids of each member stand, from the counts of all. What another
// member says may be any number.
static enum sl_err rows_places(struct hybrid_rows *r, const struct hybrid *h,
                               size_t *total, struct sl_error *err)
{
    size_t most = SYNC_ROWS_BYTES / sizeof(uint64_t) * r->shards;

    *total = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        struct rows_of_table *t = &r->table[i];

        t->count = 0;
        for (uint32_t m = 0; m < h->members; m++) {
            uint64_t n = r->words[(size_t)m * r->count + i];

            if (n > most - *total)
                return sl_fail(err, SL_ERANGE,
                               "table %s: the group has more than %zu ids in "
                               "one micro-batch of each member; take a smaller "
                               "train.batch or group.size",
                               job_tables_name(r->tables, i), most);
            if (m == h->self)
                t->own = t->count;
            t->count += n;
            *total += n;
        }
    }
    return SL_OK;
}

static enum sl_err rows_counts(struct hybrid_rows *r, struct hybrid *h,
                               size_t *total, struct sl_error *err)
{
    size_t n = (size_t)h->members * r->count;
    enum sl_err rc = words_clear(r, n, err);

    if (rc != SL_OK)
        return rc;
    for (uint32_t i = 0; i < r->count; i++)
        r->words[(size_t)h->self * r->count + i] = r->table[i].mine.count;
    rc = hybrid_gather(h, r->words, n, err);
    return rc == SL_OK ? rows_places(r, h, total, err) : rc;
}

// Makes the ids of all members known, table by table.
static enum sl_err rows_ids(struct hybrid_rows *r, struct hybrid *h,
                            struct sl_error *err)
{
    size_t total, at = 0;
    enum sl_err rc = rows_counts(r, h, &total, err);

    if (rc == SL_OK)
        rc = words_clear(r, total, err);
    if (rc != SL_OK)
        return rc;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct rows_of_table *t = &r->table[i];

        for (uint32_t k = 0; k < t->mine.count; k++)
            r->words[at + t->own + k] = le64toh(t->mine.ids[k]);
        at += t->count;
    }
    return hybrid_gather(h, r->words, total, err);
}

// ---- their rows

static enum sl_err rows_wanted_by_all(struct hybrid_rows *r,
                                      struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    size_t at = 0;

    job_tables_forget(r->tables);
    for (uint32_t i = 0; rc == SL_OK && i < r->count; i++) {
        size_t n = r->table[i].count;

        if (n > 0)
            rc = job_tables_want(r->tables, i, n, r->words + at, r->wire, err);
        at += n;
    }
    return rc;
}

// Begins to spread the leader's rows. Those that it could not pull are zeros:
// memory that was never written is not sent.
static enum sl_err rows_spread(struct hybrid_rows *r, struct hybrid *h,
                               struct sl_error *err)
{
    enum sl_err rc = hybrid_spread(h, &r->whole, 1, err);

    for (uint32_t i = 0; rc == SL_OK && i < r->count; i++) {
        size_t elements;
        float *rows;

        if (r->table[i].count == 0)
            continue;
        rows = job_tables_wanted(r->tables, i, &elements);
        if (h->self == 0 && r->whole != 1)
            memset(rows, 0, elements * sizeof(*rows));
        rc = hybrid_spread(h, rows, elements, err);
    }
    return rc == SL_OK ? hybrid_wait(h, h->number, err) : rc;
}

// Each id of the step gets a gradient on each member, if only of zeros: so the
// vectors of all members have the same ids.
static enum sl_err rows_add_zeros(struct hybrid_rows *r, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < r->count; i++)
        if (r->table[i].count > 0)
            rc = job_tables_add_wanted(r->tables, i, err);
    return rc;
}

static enum sl_err rows_meet(struct hybrid_step *s, struct sl_error *err)
{
    struct hybrid *h = s->hybrid;
    struct hybrid_rows *r = h->rows;
    enum sl_err rc = rows_ids(r, h, err);

    if (rc == SL_OK)
        rc = rows_wanted_by_all(r, err);
    if (rc != SL_OK)
        return rc;
    s->pulled = SYNC_OK;
    if (h->self == 0)
        s->pulled = job_tables_pull(r->tables, s->sync, err);
    r->whole = s->pulled == SYNC_OK;
    // Their error is the leader's own, if it is the leader that failed.
    rc = rows_spread(r, h, s->pulled == SYNC_OK ? err : NULL);
    s->dropped = rc == SL_OK && r->whole != 1;
    if (s->dropped && s->pulled == SYNC_OK)
        return sl_fail(err, SL_ECANCELED, "the leader has no rows");
    if (s->dropped) // the leader's own reason, if its pull failed
        return s->pulled == SYNC_FAILED && err != NULL ? err->code
                                                       : SL_ECANCELED;
    return rc == SL_OK ? rows_add_zeros(r, err) : rc;
}

enum sl_err hybrid_rows_pull(struct hybrid_step *s,
                             const struct hybrid_ids *mine,
                             struct sl_error *err)
{
    enum sl_err rc = rows_mine(s->hybrid->rows, mine, err);

    if (rc != SL_OK)
        return rc;
    pulse_wait(s->pulse, true);
    rc = rows_meet(s, err);
    pulse_wait(s->pulse, false);
    s->met++;
    if (rc == SL_OK && s->hybrid->rows->keeps)
        rc = job_tables_keep(s->hybrid->rows->tables, err);
    return rc;
}

void hybrid_rows_copy(const struct hybrid_rows *r, uint32_t table, float *rows)
{
    const struct rows_of_table *t = &r->table[table];

    job_tables_part(r->tables, table, t->own, t->mine.count, r->space);
    distinct_spread(&t->mine, 0, t->mine.count,
                    job_tables_dim(r->tables, table), r->space, rows);
}

enum sl_err hybrid_rows_rest(struct hybrid_step *s, struct sl_error *err)
{
    uint32_t most;
    enum sl_err rc = SL_OK;

    if (s->hybrid->rows == NULL)
        return SL_OK;
    most = (uint32_t)sl_ceil_div(s->count, s->hybrid->members);
    while (rc == SL_OK && s->met < most)
        rc = hybrid_rows_pull(s, NULL, err);
    return rc;
}

// ---- their gradients

enum sl_err hybrid_rows_sum(struct hybrid *h, struct sl_error *err)
{
    struct hybrid_rows *r = h->rows;
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; r != NULL && rc == SL_OK && i < r->count; i++) {
        size_t elements;
        float *sums;

        rc = job_tables_merge(r->tables, i, &sums, &elements, err);
        if (rc == SL_OK && elements > 0)
            rc = hybrid_sum(h, sums, elements, err);
    }
    return rc;
}
