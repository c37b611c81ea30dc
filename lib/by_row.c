// SPDX-License-Identifier: Apache-2.0
// lib/by_row.c -- rows of sparse tables, as the program calls.
#include "lib/inner.h"

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
    const Sluice__V1__TrainSpec *train = c->lease->record->open->spec->train;
    enum sl_err rc = closure_inside(c, 0, 0, err);

    if (rc != SL_OK)
        return rc;
    if (c->slot || spec_contributions(train) > 0)
        return sl_fail(err, SL_ENOTSUP,
                       "rows of tables are there in mode async alone, and the "
                       "job's is %s",
                       train->mode);
    if (table >= c->info.tables)
        return sl_fail(err, SL_ERANGE, "table %u of a job with %u tables",
                       table, c->info.tables);
    if (n > UINT32_MAX)
        return sl_fail(err, SL_ERANGE, "%zu rows at once; at most %u", n,
                       UINT32_MAX);
    return SL_OK;
}

enum sl_err sluice_rows_pull(struct sluice_closure *c, uint32_t table, size_t n,
                             const uint64_t *ids, float *rows,
                             struct sl_error *err)
{
    enum sl_err rc = by_row_check(c, table, n, err);
    enum sync_result result;

    if (rc != SL_OK || n == 0)
        return rc;
    rc = job_tables_want(c->job->tables, table, n, ids, err);
    if (rc != SL_OK)
        return rc;
    result = job_tables_pull(c->job->tables, c->job->sync, rows, &c->steps.err);
    return result == SYNC_OK ? SL_OK : closure_lose(c, result, err);
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
