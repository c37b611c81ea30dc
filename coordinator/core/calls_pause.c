// SPDX-License-Identifier: Apache-2.0
// coordinator/core/calls_pause.c -- the calls of clients that pause a job and
// set it going again.
#include "coordinator/core/coord.h"

#include "coordinator/core/advance.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/past_jobs.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/shards/memory.h"
#include "coordinator/core/pause.h"
#include "coordinator/core/shards/place.h"
#include "coordinator/core/leases/serve.h"
#include "coordinator/core/status/job_status.h"

static enum sl_err calls_pause_open_job(struct coord *c, const char *id,
                                        struct job **out, struct sl_error *err)
{
    uint64_t number = 0;
    enum sl_err rc = jobs_find(c, id, &number, err);

    if (rc == SL_OK && c->dead)
        rc = sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping");
    return rc == SL_OK ? ended_open(c, number, LOAD_LINE, out, err) : rc;
}

// Advances the job after the change, then answers with its status.
static enum sl_err calls_pause_reply(struct coord *c, struct job *job,
                                     Sluice__V1__JobStatus **reply,
                                     struct sl_error *err)
{
    if (!c->dead)
        advance_job(c, job);
    if (c->dead)
        return sl_fail(err, SL_EIO, "the journal could not be written");
    serve_workers(c);
    *reply = status_job(c, job, false, false);
    return *reply == NULL ? sl_fail(err, SL_ENOMEM, "a status") : SL_OK;
}

enum sl_err coord_pause(struct coord *c,
                        const Sluice__V1__PauseRequest *request,
                        Sluice__V1__JobStatus **reply, struct sl_error *err)
{
    struct job *job = NULL;
    enum sl_err rc = calls_pause_open_job(c, request->id, &job, err);

    if (rc != SL_OK)
        return rc;
    rc = pause_judge(job, request->checkpoint, err);
    if (rc == SL_OK) {
        pause_ask(c, job, request);
        rc = calls_pause_reply(c, job, reply, err);
    }
    ended_close(job);
    return rc;
}

static enum sl_err judge_resume(const struct job *job, struct sl_error *err)
{
    if (job_ended(job))
        return sl_fail(err, SL_ESTATE,
                       "job %s is %s: `sluice submit FILE --resume %s` starts "
                       "another one where it stands",
                       job->id_text, job_state_name(job->state), job->id_text);
    if (job->behind.paused)
        return sl_fail(
            err, SL_ESTATE,
            "the coordinator paused job %s because the journal is older than "
            "what ran (I7): restore the newest journal.sqlite, or give the job "
            "up (`sluice stop %s`); `sluice status %s` says what it found",
            job->id_text, job->id_text, job->id_text);
    return SL_OK;
}

enum sl_err coord_resume(struct coord *c, const Sluice__V1__JobRequest *request,
                         Sluice__V1__JobStatus **reply, struct sl_error *err)
{
    struct job *job = NULL;
    bool held;
    enum sl_err rc = calls_pause_open_job(c, request->id, &job, err);

    if (rc != SL_OK)
        return rc;
    rc = judge_resume(job, err);
    if (rc == SL_OK) {
        held = memory_holds(job);
        pause_end(c, job);
        memory_resumed(job);
        if (held)
            place_missing(c, job);
        rc = calls_pause_reply(c, job, reply, err);
    }
    ended_close(job);
    return rc;
}
