// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_tidy.c -- the rows of cuts that are gone, and how
// many there were; and of jobs that are.
//
// The newest row of a job stays, whatever became of the cut: the next number
// comes after it.
#include "coordinator/journal/journal_sql.h"

#define PAGES_FREE 4096 // 16 MiB; less is not worth a copy of the file

enum sl_err journal_cuts_clear(struct journal *j, uint64_t job,
                               struct sl_error *err)
{
    enum sl_err rc = journal_write(
        j, err,
        "INSERT INTO past(job, cuts)"
        " SELECT job, count(*) FROM cuts WHERE job = ?1 AND state = ?2"
        " AND cut < (SELECT max(cut) FROM cuts WHERE job = ?1) GROUP BY job"
        " ON CONFLICT(job) DO UPDATE SET cuts = cuts + excluded.cuts",
        JOURNAL_VALUES(U64(job), U64(JOURNAL_CUT_DROPPED)));

    if (rc != SL_OK)
        return rc;
    return journal_write(
        j, err,
        "DELETE FROM cuts WHERE job = ?1 AND state IN (?2, ?3)"
        " AND cut < (SELECT max(cut) FROM cuts WHERE job = ?1)",
        JOURNAL_VALUES(U64(job), U64(JOURNAL_CUT_DROPPED),
                       U64(JOURNAL_CUT_ABORTED)));
}

enum sl_err journal_cuts_past(struct journal *j, uint64_t job, uint64_t *count,
                              struct sl_error *err)
{
    return journal_number(j, count, err, "SELECT cuts FROM past WHERE job = ?1",
                          JOURNAL_VALUES(U64(job)));
}

static enum sl_err clear_all(struct journal *j, struct sl_error *err)
{
    sqlite3_stmt *s = journal_walk(
        j, err, "SELECT DISTINCT job FROM cuts WHERE state <> 1", NULL, 0);
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && (rc = journal_step(j, s, err)) == SL_OK)
        rc = journal_cuts_clear(j, journal_u64(s, 0), err);
    return journal_walked(s, rc);
}

static uint64_t pages(struct journal *j, const char *sql)
{
    sqlite3_stmt *s = NULL;
    uint64_t n = 0;

    if (sqlite3_prepare_v2(j->db, sql, -1, &s, NULL) == SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        n = journal_u64(s, 0);
    sqlite3_finalize(s);
    return n;
}

enum sl_err journal_tidy(struct journal *j, struct sl_error *err)
{
    enum sl_err rc = journal_begin(j, err);

    if (rc != SL_OK)
        return rc;
    rc = journal_end(j, clear_all(j, err), err);
    // Without the space for a copy the file stays as it is. Elsewhere there is
    // no file, and changes fit the layout of before alone.
    if (rc == SL_OK && j->keeper == NULL &&
        pages(j, "PRAGMA freelist_count") > PAGES_FREE &&
        pages(j, "PRAGMA freelist_count") * 2 > pages(j, "PRAGMA page_count"))
        sqlite3_exec(j->db, "VACUUM", NULL, NULL, NULL);
    return rc;
}

// ---- deleted jobs

// Rows that have blobs count for many: their pages are read to be freed.
static const struct {
    uint64_t each;
    const char *sql;
} sweeps[] = {
    {1, "DELETE FROM shards WHERE job = ?1 AND shard IN"
        " (SELECT shard FROM shards WHERE job = ?1 LIMIT ?2)"},
    {1, "DELETE FROM replicas WHERE job = ?1 AND shard IN"
        " (SELECT shard FROM replicas WHERE job = ?1 LIMIT ?2)"},
    {250, "DELETE FROM cuts WHERE job = ?1 AND cut IN"
          " (SELECT cut FROM cuts WHERE job = ?1 LIMIT ?2)"},
    {1, "DELETE FROM evaluations WHERE job = ?1 AND (epoch, steps) IN"
        " (SELECT epoch, steps FROM evaluations WHERE job = ?1 LIMIT ?2)"},
    {1, "DELETE FROM metrics WHERE job = ?1 AND (epoch, steps, name) IN"
        " (SELECT epoch, steps, name FROM metrics WHERE job = ?1 LIMIT ?2)"},
    {1, "DELETE FROM blames WHERE job = ?1 AND (closure, worker) IN"
        " (SELECT closure, worker FROM blames WHERE job = ?1 LIMIT ?2)"},
};

// Within a transaction. A job of which room is left has no more rows.
static enum sl_err sweep_job(struct journal *j, uint64_t job,
                             struct sl_error *err)
{
    uint64_t room = JOURNAL_SWEEP;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(sweeps); i++) {
        uint64_t most = room / sweeps[i].each;

        if (most == 0)
            return SL_OK; // it is gone on with later
        rc = journal_write(j, err, sweeps[i].sql,
                           JOURNAL_VALUES(U64(job), U64(most)));
        if (rc == SL_OK && (uint64_t)sqlite3_changes(j->db) == most)
            return SL_OK;
        room -= (uint64_t)sqlite3_changes(j->db) * sweeps[i].each;
    }
    return rc != SL_OK
               ? rc
               : journal_write(j, err, "DELETE FROM swept WHERE job = ?1",
                               JOURNAL_VALUES(U64(job)));
}

enum sl_err journal_sweep(struct journal *j, struct sl_error *err)
{
    uint64_t job = 0;
    enum sl_err rc;

    if (j->swept)
        return SL_OK;
    rc = journal_number(j, &job, err,
                        "SELECT job FROM swept ORDER BY job LIMIT 1", NULL, 0);
    if (rc != SL_OK)
        return rc;
    j->swept = job == 0;
    if (j->swept)
        return SL_OK;
    rc = journal_begin(j, err);
    return rc == SL_OK ? journal_end(j, sweep_job(j, job, err), err) : rc;
}
