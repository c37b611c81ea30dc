// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/past_jobs.c -- the records of jobs that have ended,
// and their reading back.
#include "coordinator/core/recovery/past_jobs.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/status/job_status.h"
#include "coordinator/core/recovery/unreadable.h"

// ---- records

static enum sl_err ended_add_record(struct coord *c, uint64_t id, uint64_t uid,
                                    enum job_state state, const char *name)
{
    size_t bytes = strlen(name) + 1;
    struct ended_job *e = sl_malloc(sizeof(*e) + bytes);

    if (e == NULL || map_put(&c->jobs.ended, id, e) != SL_OK) {
        sl_free(e);
        return SL_ENOMEM;
    }
    *e = (struct ended_job){.id = id, .uid = uid, .state = state};
    memcpy(e->name, name, bytes);
    return SL_OK;
}

static void ended_drop_record(struct coord *c, uint64_t id)
{
    struct ended_job *e = map_remove(&c->jobs.ended, id);

    if (e != NULL)
        sl_free(e->unreadable);
    sl_free(e);
}

enum sl_err ended_add(struct coord *c, const struct journal_job *row,
                      struct sl_error *err)
{
    enum sl_err rc = ended_add_record(c, row->id, row->uid,
                                      (enum job_state)row->state, row->name);

    return rc == SL_OK ? SL_OK : sl_fail(err, rc, "no memory for one more job");
}

static bool note_unreadable(struct ended_job *e, const struct sl_error *why)
{
    LOG(ERROR, "job cannot be read", "job=j-%llu why=%s", (ull)e->id,
        why->text);
    e->state = JOB_FAILED;
    e->unreadable = sl_strdup(why->text);
    return e->unreadable != NULL;
}

enum sl_err ended_unreadable(struct coord *c, const struct journal_job *row,
                             const struct sl_error *why, struct sl_error *err)
{
    struct ended_job *e = jobs_ended(c, row->id);
    enum sl_err rc = e != NULL ? SL_OK : ended_add(c, row, err);

    if (rc == SL_OK && !note_unreadable(jobs_ended(c, row->id), why))
        rc = sl_fail(err, SL_ENOMEM, "no memory for one more job");
    return rc;
}

void ended_release(struct coord *c)
{
    size_t at = 0;
    void *value;

    while (map_next(&c->jobs.ended, &at, NULL, &value)) {
        struct ended_job *e = value;

        sl_free(e->unreadable);
        sl_free(e);
    }
    map_release(&c->jobs.ended);
}

// ---- reading one back

struct ended_reading {
    struct coord *c;
    struct ended_job *record;
    enum load_part part;
    struct job *job;
};

static enum sl_err read_row(void *arg, const struct journal_job *row,
                            struct sl_error *err)
{
    struct ended_reading *r = arg;
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc;

    if (r->record->unreadable == NULL) {
        rc = load_job(r->c, row, r->part, &r->job, err);
        if (rc != SL_ECORRUPT || journal_failed(r->c->journal))
            return rc;
        if (!note_unreadable(r->record, err))
            return sl_fail(err, SL_ENOMEM, "no memory for one more job");
    }
    sl_fail(&why, SL_ECORRUPT, "%s", r->record->unreadable);
    rc = unreadable_job(r->c, &r->job, row, &why);
    return rc == SL_OK ? SL_OK : sl_fail(err, rc, "no memory for one more job");
}

enum sl_err ended_open(struct coord *c, uint64_t id, enum load_part part,
                       struct job **out, struct sl_error *err)
{
    struct ended_reading r = {
        .c = c, .record = jobs_ended(c, id), .part = part};
    struct job *job = jobs_get(c, id);
    enum sl_err rc;

    if (job != NULL) {
        // the status that is shown is the one that stays
        status_final_keep(c, job);
        *out = job;
        return SL_OK;
    }
    if (r.record == NULL)
        return sl_fail(err, SL_ENOENT, "there is no job j-%llu", (ull)id);
    rc = journal_job_read(c->journal, id, read_row, &r, err);
    if (rc == SL_OK && r.job == NULL)
        rc = sl_fail(err, SL_EINTERNAL, "journal: no row of job j-%llu",
                     (ull)id);
    if (rc != SL_OK) {
        job_free(r.job);
        return journal_failed(c->journal) ? coord_fatal(c, err) : rc;
    }
    r.job->lent = true;
    *out = r.job;
    return SL_OK;
}

void ended_close(struct job *job)
{
    if (job != NULL && job->lent)
        job_free(job);
}

void ended_forget(struct coord *c, struct job *job)
{
    ended_drop_record(c, job->id);
    map_remove(&c->jobs.by_id, job->id);
    list_remove(&job->on_active);
    job_free(job);
}

// ---- after the end

// Uses up one of the reports that m may still make of the job; returns false if
// it has none left. Each costs a reading of the journal, and a member that was
// not told to close the job has none.
static bool has_a_word(struct member *m, uint64_t job)
{
    uintptr_t words = (uintptr_t)map_remove(&m->closing, job);

    if (words > 1)
        (void)map_put(&m->closing, job, (void *)(words - 1));
    return words > 0;
}

void ended_report(struct coord *c, struct member *m,
                  const Sluice__V1__ShardReport *report)
{
    const struct ended_job *e = jobs_ended(c, report->job);
    struct sl_error err = SL_ERROR_INIT;
    struct job *job = NULL;

    if (e == NULL || e->state == JOB_FINISHED || e->unreadable != NULL ||
        (report->job_uid != 0 && report->job_uid != e->uid) ||
        !has_a_word(m, e->id) ||
        ended_open(c, e->id, LOAD_WHOLE, &job, &err) != SL_OK)
        return;
    status_final_report(c, m, job, report);
    status_final_keep(c, job);
    ended_close(job);
}

// Lets go of an ended job but for its record. Without memory for a record the
// job stays until the next tick.
static void ended_evict_job(struct coord *c, struct job *job)
{
    if (ended_add_record(c, job->id, job->uid, job->state, job->name) != SL_OK)
        return;
    map_remove(&c->jobs.by_id, job->id);
    list_remove(&job->on_active);
    job_free(job);
}

void ended_check(struct coord *c)
{
    uint64_t now = coord_now(c);

    list_for_safe(n, &c->jobs.ending)
    {
        struct job *job = list_entry(n, struct job, on_active);

        status_final_keep(c, job);
        if (c->dead)
            return;
        if (job->cuts.now == NULL && now - job->end.ms >= ENDED_STAYS_MS)
            ended_evict_job(c, job);
    }
}
