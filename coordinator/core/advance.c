// SPDX-License-Identifier: Apache-2.0
// coordinator/core/advance.c -- a job on its way through its states (job.c).
#include "coordinator/core/advance.h"

#include <stdio.h>

#include <string.h>

#include "common/base/history.h"
#include "common/run/log.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/end_job.h"
#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/pause.h"
#include "coordinator/core/shards/place.h"
#include "coordinator/core/job_queue.h"
#include "coordinator/core/status/skipped.h"
#include "coordinator/core/status/table_warnings.h"

static void enter_running(struct coord *c, struct job *job)
{
    job_enter(job, JOB_RUNNING);
    if (job->running_since_ms == 0)
        job->running_since_ms = coord_now(c) == 0 ? 1 : coord_now(c);
    job->counters_changed = true; // elapsed_ms changed
    job->cuts.last_ms = coord_now(c);
    coord_wrote(c,
                journal_job_state(c->journal, job->id, JOB_RUNNING, &c->err));
    JOB_HISTORY(job, "geometry",
                " samples=%llu batch=%llu epochs=%llu "
                "steps_per_closure=%llu shards=%u parts=%u window=%u keep=%u",
                (ull)job->shards.schedule.samples,
                (ull)job->shards.schedule.batch,
                (ull)job->shards.schedule.epochs,
                (ull)job->shards.schedule.steps_per_closure, job->shards.count,
                job->shards.parts, (unsigned)job->spec->train->window_closures,
                (unsigned)job->spec->checkpoint->keep);
    LOG(INFO, "job runs", "job=%s name=%s", job->id_text, job->name);
    happened_job(c, EVENT_JOB_RUNS, job, NULL,
                 "%s runs: %llu of %llu steps are counted", job->name,
                 (ull)job_steps(job),
                 (ull)schedule_steps(&job->shards.schedule));
}

// Moves the job between RUNNING and FINISHING as the evidence says. Counted is
// not finished (E1): a shard may come back with less.
static void follow_evidence(struct coord *c, struct job *job)
{
    bool full = evidence_full(&job->shards.evidence);

    if (job->state == JOB_RUNNING && full) {
        job_enter(job, JOB_FINISHING);
        LOG(INFO, "all steps are counted", "job=%s", job->id_text);
        happened_job(c, EVENT_JOB_COUNTED, job, NULL,
                     "all %llu steps of %s are counted",
                     (ull)schedule_steps(&job->shards.schedule), job->name);
    } else if (job->state == JOB_FINISHING && !full) {
        job_enter(job, JOB_RUNNING);
        LOG(WARN, "shard came back with fewer counted steps", "job=%s",
            job->id_text);
        happened_job(
            c, EVENT_JOB_RUNS, job, NULL,
            "%s runs again: a shard came back with fewer counted steps",
            job->name);
    }
}

// Ends a job with non-finite parameters, if train.nonfinite is "fail".
static bool advance_end_nonfinite(struct coord *c, struct job *job)
{
    const char *why = job->warnings[JOB_WARN_VALUES];

    if (why == NULL || strcmp(job->spec->train->nonfinite, "fail") != 0)
        return false;
    end_fail(c, job, "%s", why);
    return true;
}

static void advance_finish_job(struct coord *c, struct job *job,
                               const char *why)
{
    char nothing[400];

    if (job->state == JOB_RUNNING)
        job_enter(job, JOB_FINISHING);
    if (skipped_all(job, nothing, sizeof(nothing)))
        end_job(c, job, JOB_FAILED, nothing);
    else
        end_job(c, job, JOB_FINISHED, why);
}

// Stops the job once the wished cut is there or cannot be made: a stop does not
// wait for a disk.
static void advance_stop_job(struct coord *c, struct job *job)
{
    bool saved = job_granted(job, &job->cuts.wish) != NULL;
    char why[320];

    snprintf(why, sizeof(why), "stopped by request%s%.200s",
             saved ? "" : "; the checkpoint before the end failed: ",
             saved                   ? ""
             : job->cuts.why != NULL ? job->cuts.why
                                     : "a shard is away");
    end_job(c, job, JOB_STOPPED, why);
}

// Finishes a job that early stopping ended: its last evaluation is of a cut
// that holds all that was ever issued (D2).
static void finish_early(struct coord *c, struct job *job)
{
    char why[320];

    monitor_why(job, why, sizeof(why));
    advance_finish_job(c, job, why);
}

void advance_job(struct coord *c, struct job *job)
{
    if (c->dead || job_ended(job) || job->behind.paused || queue_waits(job))
        return;
    if (!job->shards.placed && !job_rests(job))
        place_job(c, job);
    if (c->dead || job_ended(job) || !job->shards.placed)
        return;
    if (job->mode->check != NULL)
        job->mode->check(c, job);
    if (c->dead || job_ended(job))
        return;
    if (job->state == JOB_PLACING && job_served(job))
        enter_running(c, job);
    if (c->dead || job->state == JOB_PLACING)
        return;
    if (advance_end_nonfinite(c, job))
        return;
    follow_evidence(c, job);
    skipped_check(c, job);
    table_warnings_check(c, job);
    if (job->mode->recheck != NULL)
        job->mode->recheck(c, job);
    // Before another cut is begun, which the stop would wait for, too.
    if (job->cuts.stop_after && job_granted(job, &job->cuts.wish) != NULL) {
        advance_stop_job(c, job);
        return;
    }
    cuts_check(c, job);
    if (!c->dead && !job_ended(job) && job->cuts.stop_after &&
        job->cuts.now == NULL && !job_is_moving(job, coord_now(c)))
        advance_stop_job(c, job);
    if (c->dead || job_ended(job))
        return;
    pause_check(c, job);
    if (c->dead)
        return;
    evaluations_check(c, job);
    if (c->dead || job_ended(job))
        return;
    if (job->state == JOB_FINISHING && job->cuts.now == NULL &&
        job_cut_complete(job) && !evaluations_pending(job))
        advance_finish_job(c, job, "");
    else if (job->monitor.callbacks.early.stopped && job->cuts.now == NULL)
        finish_early(c, job);
}
