// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/recover.c -- the way from the journal to a
// coordinator that may serve members and clients.
//
//   1. term + 1, committed; the store, which was asked before (stored.h), is
//      the one that it was
//   2. jobs that have not ended, with shards, cuts, evaluations, blames; of
//      those that have, what is kept of them (past_jobs.h)
//   3. K6: an intent without an outcome: the manifest is there: published;
//      not there: aborted, also if it turns up later
//   4. I7: a manifest that the journal does not know: its job is paused
//   5. a job whose rows cannot be read is put aside, and one that was being
//      loaded when coordinators ended, again and again; the others go on
//
// Evidence starts empty, under the newest incarnations: the shards will say
// what they have counted. Attempts are forgotten, which costs only work.
#include "coordinator/core/recovery/recover.h"

#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/history.h"
#include "coordinator/core/recovery/behind.h"
#include "coordinator/core/recovery/cluster.h"
#include "coordinator/core/leases/drains.h"
#include "coordinator/core/leases/tainted.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/past_jobs.h"
#include "coordinator/core/recovery/load.h"
#include "coordinator/core/pause.h"
#include "coordinator/core/recovery/stored.h"
#include "coordinator/feed/feed.h"
#include "coordinator/journal/journal_manifest.h"

// Starts that may end without a word while they load a job, before the next
// start puts it aside; of the later starts one in TRIED_AGAIN tries it.
#define DEATHS_MOST 3
#define TRIED_AGAIN 8

// Pauses a job with a manifest that the journal does not know (I7).
static enum sl_err check_manifests(struct coord *c, struct job *job,
                                   struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct buf folder = BUF_INIT;
    uint64_t highest = 0;
    enum sl_err rc =
        manifest_folder(&folder, c->store, job->name, job->id, job->uid);

    if (rc == SL_OK)
        rc = stored_highest(c->stored, buf_text(&folder), &highest, err);
    if (rc == SL_OK && highest > job->cuts.last) {
        sl_fail(&why, SL_ESTATE,
                "%s holds cut %llu, this journal knows only %llu",
                buf_text(&folder), (ull)highest, (ull)job->cuts.last);
        behind_pause(c, job, &why);
    }
    buf_release(&folder);
    return rc;
}

// Revives a job that has not ended as PLACING; its shards' hellos move it on.
static enum sl_err revive(struct coord *c, struct job *job,
                          struct sl_error *err)
{
    enum sl_err rc = check_manifests(c, job, err);

    if (rc != SL_OK)
        return rc;
    job->counters.restarts++;
    rc = journal_job_counters(c->journal, job->id, &job->counters, err);
    if (rc == SL_OK && map_put(&c->jobs.by_id, job->id, job) != SL_OK)
        rc = sl_fail(err, SL_ENOMEM, "no memory for one more job");
    if (rc == SL_OK)
        list_push_back(&c->jobs.active, &job->on_active);
    if (rc == SL_OK)
        pause_revive(job);
    return rc;
}

// Loads a job that has not ended, or that ended with a cut without an outcome.
static enum sl_err recover_load_job(struct coord *c,
                                    const struct journal_job *row,
                                    struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct job *job = NULL;
    enum sl_err rc = load_job(c, row, LOAD_START, &job, &why);

    if (rc == SL_ECORRUPT && !journal_failed(c->journal))
        return ended_unreadable(c, row, &why, err);
    if (rc == SL_OK && !job_ended(job)) {
        JOB_HISTORY(row, "recovered", " state=%s", job_state_name(job->state));
        rc = revive(c, job, &why);
    } else if (rc == SL_OK) {
        job_free(job); // its cut has its outcome
        return SL_OK;
    }
    if (rc == SL_OK)
        return SL_OK;
    job_free(job);
    return sl_fail(err, rc, "job j-%llu: %s", (ull)row->id, why.text);
}

// Says whether a job is put aside. It is tried again now and then: there may be
// more memory by then.
static bool is_fatal(uint64_t times)
{
    return times > DEATHS_MOST && times % TRIED_AGAIN != 0;
}

static enum sl_err recover_try_job(void *arg, const struct journal_job *row,
                                   struct sl_error *err)
{
    struct coord *c = arg;
    struct sl_error why = SL_ERROR_INIT;
    uint64_t times = 0;
    enum sl_err rc = journal_loading(c->journal, row->id, &times, err), noted;

    if (rc != SL_OK)
        return rc;
    if (is_fatal(times)) {
        sl_fail(&why, SL_ENOMEM,
                "the coordinator ended %d times while it loaded this job, "
                "perhaps for want of memory; every %dth start tries it again",
                DEATHS_MOST, TRIED_AGAIN);
        return ended_unreadable(c, row, &why, err);
    }
    rc = recover_load_job(c, row, err);
    noted = journal_failed(c->journal)
                ? SL_OK
                : journal_loaded(c->journal, row->id, rc == SL_OK ? err : NULL);
    return rc == SL_OK ? noted : rc;
}

static enum sl_err take_ended(void *arg, const struct journal_job *row,
                              struct sl_error *err)
{
    JOB_HISTORY(row, "recovered", " state=%s",
                job_state_name((enum job_state)row->state));
    return ended_add(arg, row, err);
}

enum sl_err recover_coord(struct coord *c, struct sl_error *err)
{
    enum sl_err rc = journal_next_term(c->journal, &c->term, err);

    HISTORY("term", "term=%llu", (ull)c->term);
    if (rc == SL_OK && c->options.stands_by)
        feed_begin_term(c->options.feed, c->term);
    FAULT("term.bump");
    if (rc == SL_OK)
        rc = cluster_open(c, err);
    if (rc == SL_OK)
        rc = journal_last_job(c->journal, &c->jobs.last, err);
    if (rc == SL_OK)
        rc = journal_given_job(c->journal, &c->jobs.given, err);
    if (rc == SL_OK)
        rc = drains_load(c, err);
    if (rc == SL_OK)
        rc = tainted_load(c, err);
    if (rc == SL_OK)
        rc = behind_skip_stored(c, err);
    if (rc == SL_OK)
        rc = journal_each_ended(c->journal, take_ended, c, err);
    if (rc == SL_OK)
        rc = journal_each_job(c->journal, recover_try_job, c, err);
    if (rc == SL_OK)
        rc = journal_tidy(c->journal, err);
    FAULT("recover.journal");
    return rc;
}
