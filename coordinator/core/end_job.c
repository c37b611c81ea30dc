// SPDX-License-Identifier: Apache-2.0
// coordinator/core/end_job.c -- the end of a job: its leases and its cut go,
// its last status is journalled, its members are notified.
#include "coordinator/core/end_job.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/job.h"
#include "coordinator/core/status/job_curves.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/job_queue.h"
#include "coordinator/core/send.h"
#include "coordinator/core/status/job_status.h"

static void stop_clock(struct coord *c, struct job *job)
{
    job->counters.elapsed_ms = job_elapsed_ms(job, coord_now(c));
    job->running_since_ms = 0;
    job->pause.row.total_ms = job_paused_ms(job, coord_now(c));
    job->pause.from_ms = 0;
}

// Commits the end of a job; no member is notified before (E2).
static bool commit_end(struct coord *c, struct job *job)
{
    struct buf packed = BUF_INIT;
    enum sl_err rc;

    job->end.status = status_job(c, job, true, false);
    if (job->end.status != NULL)
        status_settle(job->end.status, job);
    rc = job->end.status == NULL ? SL_ENOMEM
                                 : wire_pack(&job->end.status->base, &packed);
    if (rc != SL_OK)
        rc = sl_fail(&c->err, rc, "the end of job %s", job->id_text);
    else
        rc = journal_job_end(c->journal, job->id, (int)job->state,
                             job->end.reason == NULL ? "" : job->end.reason,
                             job->end.us,
                             (struct journal_blob){packed.data, packed.len},
                             &job->counters, &c->err);
    buf_release(&packed);
    return coord_wrote(c, rc);
}

// Tells a psserver to close its shards of the job, and replicas; returns false
// if it has none. Only a member that was told so is heard of them any more,
// twice per shard: by a heartbeat that is on its way, and at last.
static bool close_shards(struct coord *c, struct member *m, struct job *job)
{
    uintptr_t words = 2 * (uintptr_t)job_lies_on(job, m);

    if (words == 0 && !job_has_replica_on(job, m))
        return false;
    send_close(c, m, job->id, job->uid, false);
    if (words == 0)
        return true;
    if (m->closing.len >= COORD_REMEMBERED_MAX)
        map_release(&m->closing);
    // Without memory its reports are dropped.
    // a number, never read as a pointer
    (void)map_put(&m->closing, job->id, (void *)words);
    return true;
}

static void notify_end(struct coord *c, struct job *job)
{
    char why[64];

    snprintf(why, sizeof(why), "the job has %s", job_state_name(job->state));
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (close_shards(c, m, job)) {
            continue;
        } else if (map_get(&m->opened, job->id) != NULL) {
            send_revoke_job(c, m, job, why);
            sl_free(map_remove(&m->opened, job->id));
        }
        map_remove(&m->losing, job->id);
        sl_free(map_remove(&m->conduct, job->id));
    }
}

static void say_end(struct coord *c, const struct job *job)
{
    enum event_kind kind = job->state == JOB_FAILED    ? EVENT_JOB_FAILED
                           : job->state == JOB_STOPPED ? EVENT_JOB_STOPPED
                                                       : EVENT_JOB_FINISHED;
    const char *why = job->end.reason == NULL ? "" : job->end.reason;

    happened_job(c, kind, job, NULL, "%s has %s%s%s", job->name,
                 job_state_name(job->state), why[0] == '\0' ? "" : ": ", why);
}

void end_job(struct coord *c, struct job *job, enum job_state how,
             const char *reason)
{
    if (job_ended(job))
        return;
    figures_job(c, job);
    list_for(n, &c->members.all)
    {
        leases_cancel(c, list_entry(n, struct member, node), job);
    }
    if (job->cuts.now != NULL && !job->cuts.now->writing)
        cuts_give_up(c, job, "the job has ended");
    job->end.reason = sl_strdup(reason); // NULL without memory
    job->end.us = sl_wall_us(c->options.clock);
    curves_end(c, job);
    stop_clock(c, job);
    job_enter(job, how);
    FAULT("job.finish");
    if (!commit_end(c, job))
        return;
    FAULT("job.finished");
    LOG(INFO, "job ended", "job=%s state=%s reason=%s", job->id_text,
        job_state_name(how), reason);
    say_end(c, job);
    queue_leave(c, job);
    list_remove(&job->on_active);
    list_push_back(&c->jobs.ending, &job->on_active);
    job->end.ms = coord_now(c);
    notify_end(c, job);
    job_release_work(job);
    c->io.changed(c->io.arg, job->id);
}

void end_fail(struct coord *c, struct job *job, const char *fmt, ...)
{
    struct buf text = BUF_INIT;
    va_list ap;

    va_start(ap, fmt);
    buf_vappendf(&text, fmt, ap);
    va_end(ap);
    end_job(c, job, JOB_FAILED, buf_text(&text));
    buf_release(&text);
}
