// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/unreadable.c -- the stand-in of a job that the
// journal holds and this program cannot read.
#include "coordinator/core/recovery/unreadable.h"
#include "coordinator/core/job.h"
#include "coordinator/core/mode.h"

#include "common/base/mem.h"

// Makes the smallest spec that a job must have.
static Sluice__V1__JobSpec *no_spec(void)
{
    Sluice__V1__JobSpec *spec = wire_new(&sluice__v1__job_spec__descriptor);

    if (spec == NULL)
        return NULL;
    spec->train = wire_new(&sluice__v1__train_spec__descriptor);
    if (spec->train != NULL)
        return spec;
    wire_free(&spec->base);
    return NULL;
}

// Makes the status of the stand-in; the numbers of the row are good.
static Sluice__V1__JobStatus *last_words(const struct journal_job *row,
                                         const struct job *job)
{
    Sluice__V1__JobStatus *m = wire_new(&sluice__v1__job_status__descriptor);

    if (m == NULL)
        return NULL;
    m->job = row->id;
    m->id = sl_strdup(job->id_text);
    m->name = sl_strdup(row->name);
    m->reason = sl_strdup(job->end.reason);
    m->state = (Sluice__V1__JobState)job->state;
    m->unreadable = true;
    m->incarnation = row->incarnation;
    m->submitted_unix = (double)row->submitted_us / 1e6;
    m->ended_unix = (double)row->ended_us / 1e6;
    if (m->id != NULL && m->name != NULL && m->reason != NULL)
        return m;
    wire_free(&m->base);
    return NULL;
}

enum sl_err unreadable_job(const struct coord *c, struct job **out,
                           const struct journal_job *row, struct sl_error *why)
{
    Sluice__V1__JobSpec *spec = no_spec();
    struct job *job =
        spec == NULL ? NULL
                     : job_new(row->id, row->uid, row->incarnation, row->name,
                               row->request_id, spec, mode_of(c, spec));

    if (job == NULL) {
        wire_free((ProtobufCMessage *)spec);
        return sl_fail(why, SL_ENOMEM, "no memory for one more job");
    }
    job->unreadable = true;
    job->submitted_us = row->submitted_us;
    job->end.us = row->ended_us;
    job->end.reason = sl_strdup(why->text);
    job_restore(job, JOB_FAILED);
    job->end.status = job->end.reason == NULL ? NULL : last_words(row, job);
    if (job->end.status == NULL) {
        job_free(job);
        return sl_fail(why, SL_ENOMEM, "no memory for one more job");
    }
    job_release_work(job);
    *out = job;
    return SL_OK;
}
