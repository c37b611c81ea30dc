// SPDX-License-Identifier: Apache-2.0
// coordinator/core/unreadable.c -- the stand-in of a job that the journal holds
// and this program cannot read.
#include "coordinator/core/unreadable.h"

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/journal/manifest.h"

// As little as a job has to have.
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

// What is said of it; the numbers of the row are good.
static Sluice__V1__JobStatus *last_words(const struct journal_job *row,
                                         const struct job *job)
{
    Sluice__V1__JobStatus *m = wire_new(&sluice__v1__job_status__descriptor);

    if (m == NULL)
        return NULL;
    m->job = row->id;
    m->id = sl_strdup(job->id_text);
    m->name = sl_strdup(row->name);
    m->reason = sl_strdup(job->reason);
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

enum sl_err unreadable_job(struct job **out, const struct journal_job *row,
                           struct sl_error *why)
{
    Sluice__V1__JobSpec *spec = no_spec();
    struct job *job = spec == NULL
                          ? NULL
                          : job_new(row->id, row->uid, row->incarnation,
                                    row->name, row->request_id, spec);

    if (job == NULL) {
        wire_free((ProtobufCMessage *)spec);
        return sl_fail(why, SL_ENOMEM, "one more job");
    }
    job->unreadable = true;
    job->submitted_us = row->submitted_us;
    job->ended_us = row->ended_us;
    job->reason = sl_strdup(why->text);
    job_restore(job, JOB_FAILED);
    job->final = job->reason == NULL ? NULL : last_words(row, job);
    if (job->final == NULL) {
        job_free(job);
        return sl_fail(why, SL_ENOMEM, "one more job");
    }
    job_release_work(job);
    *out = job;
    return SL_OK;
}

static enum sl_err remove_one(void *arg, const struct journal_cut *row,
                              struct sl_error *err)
{
    struct sl_error litter = SL_ERROR_INIT;

    if (row->state == JOURNAL_CUT_DROPPED || row->state == JOURNAL_CUT_ABORTED)
        return SL_OK;
    if (manifest_remove(arg, row->path, &litter) != SL_OK)
        LOG(WARN, "manifest not removed", "path=%s why=%s", row->path,
            litter.text);
    return SL_OK;
}

void unreadable_remove_manifests(struct journal *j, struct fs *fs,
                                 const struct job *job)
{
    struct sl_error err = SL_ERROR_INIT;

    if (job->unreadable &&
        journal_each_cut(j, job->id, remove_one, fs, &err) != SL_OK)
        LOG(WARN, "manifests not removed", "job=%s why=%s", job->id_text,
            err.text);
}
