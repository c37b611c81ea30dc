// SPDX-License-Identifier: Apache-2.0
// lib/by_row.c -- rows of sparse tables, as the program calls.
#include "common/base/mem.h"
#include "common/base/num.h"
#include "lib/slot.h"
#include "proto/table_rows.h"
#include "trainer/push/distinct.h"

bool sluice_closure_table(const struct sluice_closure *c, uint32_t i,
                          struct sluice_table *out)
{
    const struct job_tables *t = c->job->tables;

    if (i >= job_tables_count(t))
        return false;
    *out = (struct sluice_table){.name = job_tables_name(t, i),
                                 .dim = job_tables_dim(t, i)};
    return true;
}

static enum sl_err by_row_check(struct sluice_closure *c, uint32_t table,
                                size_t n, struct sl_error *err)
{
    enum sl_err rc = closure_inside(c, 0, 0, err);

    if (rc != SL_OK)
        return rc;
    if (table >= c->info.tables)
        return sl_fail(err, SL_ERANGE, "table %u of a job with %u tables",
                       table, c->info.tables);
    if (n > UINT32_MAX)
        return sl_fail(err, SL_ERANGE, "%zu rows at once; at most %u", n,
                       UINT32_MAX);
    return SL_OK;
}

// Wants rows that fit into one call to each shard, table by table as messages
// have them. SL_ERANGE: they do not.
static enum sl_err by_row_want(struct sluice_closure *c,
                               const struct sluice_rows *of, size_t count,
                               struct sl_error *err)
{
    enum wire_type wire = spec_rows_wire(c->lease->record->open->spec);
    enum sl_err rc = SL_OK;

    job_tables_forget(c->job->tables);
    for (uint32_t t = 0; t < c->info.tables; t++)
        for (size_t i = 0; rc == SL_OK && i < count; i++)
            if (of[i].table == t && of[i].n > 0)
                rc = job_tables_want(c->job->tables, t, of[i].n, of[i].ids,
                                     wire, err);
    return rc;
}

static enum sl_err by_row_lose(struct sluice_closure *c,
                               enum sync_result result, struct sl_error *err)
{
    bool failed = result == SYNC_FAILED;

    if (c->slot)
        slot_fail(c, failed ? &c->steps.err : NULL, result == SYNC_STOPPED);
    return c->slot && !failed ? slot_lose_closure(c, err)
                              : closure_lose(c, result, err);
}

// Pulls what is wanted. After a failure, whatever its code, the closure is
// lost, and nothing may be wanted again.
static enum sl_err by_row_pull_wanted(struct sluice_closure *c,
                                      const struct sluice_rows *of,
                                      size_t count, struct sl_error *err)
{
    enum sync_result result;

    c->session->pulls = c->slot;
    result = job_tables_pull(c->job->tables, c->job->sync, &c->steps.err);
    c->session->pulls = false;
    if (result != SYNC_OK)
        return by_row_lose(c, result, err);
    for (size_t i = 0; i < count; i++)
        if (of[i].n > 0)
            job_tables_rows(c->job->tables, of[i].table, of[i].rows);
    return SL_OK;
}

// Pulls in as many parts as are needed, wherever the ids lie. An id that stands
// several times is in one part, so all its places get the same row.
static enum sl_err by_row_pull_parts(struct sluice_closure *c,
                                     const struct sluice_rows *of,
                                     struct sl_error *err)
{
    uint32_t dim = job_tables_dim(c->job->tables, of->table);
    uint32_t most =
        (uint32_t)((SYNC_ROWS_BYTES - 2 * TABLE_ROWS_HEAD) /
                   (sizeof(*of->ids) + (dim + 1) * sizeof(*of->rows)));
    struct sluice_rows part = {
        .table = of->table, .rows = sl_malloc_array(most, dim * sizeof(float))};
    struct distinct d = {0};
    enum sl_err rc = part.rows == NULL
                         ? sl_no_memory(err)
                         : distinct_make(&d, of->n, of->ids, 1, 1, err);

    for (uint32_t k = 0; rc == SL_OK && k < d.count; k += (uint32_t)part.n) {
        part.n = sl_min(most, d.count - k);
        part.ids = d.ids + k;
        rc = by_row_want(c, &part, 1, err);
        if (rc == SL_OK)
            rc = by_row_pull_wanted(c, &part, 1, err);
        if (rc == SL_OK)
            distinct_spread(&d, k, (uint32_t)part.n, dim, part.rows, of->rows);
    }
    distinct_release(&d);
    sl_free(part.rows);
    return rc;
}

static enum sl_err by_row_check_all(struct sluice_closure *c,
                                    const struct sluice_rows *of, size_t count,
                                    struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < count; i++) {
        rc = by_row_check(c, of[i].table, of[i].n, err);
        for (size_t k = 0; rc == SL_OK && k < i; k++)
            if (of[k].table == of[i].table)
                rc = sl_fail(err, SL_EINVAL,
                             "table %u stands twice among those to pull",
                             of[i].table);
    }
    return rc;
}

static bool by_row_none(const struct sluice_rows *of, size_t count)
{
    while (count > 0 && of[count - 1].n == 0)
        count--;
    return count == 0;
}

// Ends the pull that sluice_rows_ahead began, and copies what the step before
// has asked for. Sets *taken to whether that is all.
static enum sl_err by_row_take(struct sluice_closure *c,
                               const struct sluice_rows *of, size_t count,
                               bool *taken, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (c->rows_ahead)
        rc = by_row_pull_wanted(c, NULL, 0, err);
    c->rows_ahead = false;
    *taken = c->rows_came;
    for (size_t i = 0; rc == SL_OK && *taken && i < count; i++)
        *taken =
            of[i].n == 0 || job_tables_take(c->job->tables, of[i].table,
                                            of[i].n, of[i].ids, of[i].rows);
    return rc;
}

enum sl_err sluice_rows_pull_all(struct sluice_closure *c,
                                 const struct sluice_rows *of, size_t count,
                                 struct sl_error *err)
{
    enum sl_err rc = by_row_check_all(c, of, count, err);
    bool taken;

    if (rc != SL_OK || by_row_none(of, count))
        return rc;
    rc = by_row_take(c, of, count, &taken, err);
    if (rc != SL_OK || taken)
        return rc;
    rc = by_row_want(c, of, count, err);
    if (rc != SL_ERANGE)
        return rc == SL_OK ? by_row_pull_wanted(c, of, count, err) : rc;
    // More than one call to a shard can bring.
    if (count == 1)
        return by_row_pull_parts(c, of, err);
    rc = SL_OK;
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = sluice_rows_pull_all(c, &of[i], 1, err);
    return rc;
}

enum sl_err sluice_rows_pull(struct sluice_closure *c, uint32_t table, size_t n,
                             const uint64_t *ids, float *rows,
                             struct sl_error *err)
{
    const struct sluice_rows of = {table, n, ids, rows};

    return sluice_rows_pull_all(c, &of, 1, err);
}

// Returns true if rows may come ahead: the closure has a step behind this one,
// and the job takes gradients of any delay as they are.
static bool by_row_looks_ahead(const struct sluice_closure *c)
{
    struct sync *sync = c->job->sync;

    return !c->slot && !c->again && !atomic_load(&c->lease->gate.draining) &&
           spec_any_delay(c->lease->record->open->spec->train) &&
           sync->ops->next(sync, c->steps.step) < c->lease->steps;
}

enum sl_err sluice_rows_ahead(struct sluice_closure *c,
                              const struct sluice_rows *of, size_t count,
                              struct sl_error *err)
{
    enum sl_err rc = by_row_check_all(c, of, count, err);

    if (rc != SL_OK || by_row_none(of, count) || c->rows_ahead ||
        !by_row_looks_ahead(c))
        return rc;
    // What cannot be wanted now is pulled in its step, in parts perhaps.
    if (by_row_want(c, of, count, NULL) != SL_OK)
        return SL_OK;
    job_tables_ask(c->job->tables, c->job->sync);
    c->rows_ahead = true;
    return SL_OK;
}

enum sl_err sluice_rows_push(struct sluice_closure *c, uint32_t table, size_t n,
                             const uint64_t *ids, const float *gradients,
                             struct sl_error *err)
{
    enum sl_err rc = by_row_check(c, table, n, err);

    if (rc != SL_OK || n == 0 || c->again)
        return rc;
    return job_tables_add(c->job->tables, table, n, ids, gradients, err);
}
