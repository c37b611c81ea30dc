// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_queue.c -- rows that wait for the next commit:
// 500 workers that are lost at once cost one sync of the disk, not 500.
#include "coordinator/journal/journal_sql.h"

#include <math.h>
#include <stdio.h>

#include "common/base/mem.h"

#define QUEUE_MAX 4096

// Replaces the queued counters of the same job: the last ones say it all, and
// no other row depends on them.
static bool replaced(struct journal *j, const struct journal_queued *row)
{
    for (size_t i = 0; row->what == QUEUED_COUNTERS && i < j->queued_count;
         i++) {
        struct journal_queued *old = &j->queued[i];

        if (old->what == QUEUED_COUNTERS && old->job == row->job) {
            old->counters = row->counters;
            return true;
        }
    }
    return false;
}

static bool journal_queue_reserve(struct journal *j)
{
    size_t space = j->queued_space == 0 ? 64 : j->queued_space * 2;
    struct journal_queued *more;

    if (j->queued_count < j->queued_space)
        return true;
    more = sl_realloc_array(j->queued, space, sizeof(*more));
    if (more == NULL)
        return false;
    j->queued = more;
    j->queued_space = space;
    return true;
}

// Returns the loss sum to keep. INFINITY stands for no sum, where all of some
// steps were skipped.
static double trained_loss(const struct journal_trained *t)
{
    return t->samples == 0 && t->skipped > 0 ? (double)INFINITY : t->loss_sum;
}

static enum sl_err write_counters(struct journal *j, uint64_t id,
                                  const struct journal_counters *counters,
                                  struct sl_error *err)
{
    enum sl_err rc = journal_write(
        j, err,
        "UPDATE jobs SET closures_retried = ?2, workers_lost = ?3,"
        " psservers_lost = ?4, restarts = ?5, elapsed_ms = ?6,"
        " trained_samples = ?7, trained_correct = ?8, trained_loss = ?9"
        " WHERE id = ?1",
        JOURNAL_VALUES(
            U64(id), U64(counters->closures_retried),
            U64(counters->workers_lost), U64(counters->psservers_lost),
            U64(counters->restarts), U64(counters->elapsed_ms),
            U64(counters->trained.samples), U64(counters->trained.correct),
            REAL(trained_loss(&counters->trained))));

    if (rc != SL_OK || counters->seen_us == 0)
        return rc;
    return journal_write(
        j, err,
        "INSERT OR REPLACE INTO clocks(job, elapsed_ms, seen_us)"
        " VALUES(?1, ?2, ?3)",
        JOURNAL_VALUES(U64(id), U64(counters->elapsed_ms),
                       U64(counters->seen_us)));
}

static enum sl_err write_one(struct journal *j,
                             const struct journal_queued *row,
                             struct sl_error *err)
{
    switch (row->what) {
    case QUEUED_BLAME:
        return journal_write(
            j, err, "INSERT OR IGNORE INTO blames VALUES(?1, ?2, ?3)",
            JOURNAL_VALUES(U64(row->job), U64(row->closure), U64(row->worker)));
    case QUEUED_ABSOLVE:
        return journal_write(
            j, err, "DELETE FROM blames WHERE job = ?1 AND closure = ?2",
            JOURNAL_VALUES(U64(row->job), U64(row->closure)));
    case QUEUED_DELETED:
        return journal_write(
            j, err,
            "DELETE FROM deleted WHERE psserver = ?1 AND job = ?2 AND uid = ?3",
            JOURNAL_VALUES(TEXT(row->psserver), U64(row->job), U64(row->uid)));
    default:
        return write_counters(j, row->job, &row->counters, err);
    }
}

static enum sl_err write_queued(struct journal *j, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < j->queued_count; i++)
        rc = write_one(j, &j->queued[i], err);
    return rc;
}

static enum sl_err journal_enqueue(struct journal *j,
                                   const struct journal_queued *row,
                                   struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (j->failed)
        return sl_fail(err, SL_EIO, "journal: a write failed before");
    if (replaced(j, row))
        return SL_OK;
    if (j->queued_count >= QUEUE_MAX || !journal_queue_reserve(j))
        rc = journal_flush(j, err);
    if (rc != SL_OK)
        return rc;
    if (!journal_queue_reserve(j))
        return write_one(j, row, err);
    j->write_queued = write_queued;
    j->queued[j->queued_count++] = *row;
    return SL_OK;
}

enum sl_err journal_flush(struct journal *j, struct sl_error *err)
{
    enum sl_err rc;

    if (j->queued_count == 0)
        return SL_OK;
    rc = journal_begin(j, err);
    return rc == SL_OK ? journal_end(j, SL_OK, err) : rc;
}

enum sl_err journal_blame(struct journal *j, uint64_t job, uint64_t closure,
                          uint64_t worker, struct sl_error *err)
{
    struct journal_queued row = {
        .what = QUEUED_BLAME,
        .job = job,
        .closure = closure,
        .worker = worker,
    };

    return journal_enqueue(j, &row, err);
}

enum sl_err journal_absolve(struct journal *j, uint64_t job, uint64_t closure,
                            struct sl_error *err)
{
    struct journal_queued row = {
        .what = QUEUED_ABSOLVE,
        .job = job,
        .closure = closure,
    };

    return journal_enqueue(j, &row, err);
}

enum sl_err journal_job_counters(struct journal *j, uint64_t id,
                                 const struct journal_counters *counters,
                                 struct sl_error *err)
{
    struct journal_queued row = {
        .what = QUEUED_COUNTERS,
        .job = id,
        .counters = *counters,
    };

    return journal_enqueue(j, &row, err);
}

enum sl_err journal_deleted(struct journal *j, uint64_t job, uint64_t uid,
                            const char *psserver, struct sl_error *err)
{
    struct journal_queued row = {
        .what = QUEUED_DELETED,
        .job = job,
        .uid = uid,
    };

    snprintf(row.psserver, sizeof(row.psserver), "%s", psserver);
    return journal_enqueue(j, &row, err);
}
