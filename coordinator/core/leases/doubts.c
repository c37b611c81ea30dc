// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/doubts.c -- workers' reports against a job, whether
// they are believed, and what becomes of the worker.
#include "coordinator/core/leases/doubts.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "coordinator/core/leases/bad.h"
#include "coordinator/core/end_job.h"
#include "coordinator/core/leases/excluded.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/rules/witness.h"
#include "proto/spec.h"

// ---- the workers that could differ

// Says whether the worker holds a place of another job, which may be for long.
static bool seated_elsewhere(const struct member *m, const struct job *job)
{
    list_for(n, &m->leases)
    {
        const struct work *w = list_entry(n, struct work, on_holder);

        if (w->kind == WORK_RING && w->job != job)
            return true;
    }
    return false;
}

static bool doubts_has_said(const struct member *m, const struct job *job)
{
    const struct conduct *conduct = map_get(&m->conduct, job->id);

    return conduct != NULL && conduct->says;
}

// Says whether the worker has computed steps of the job and reports nothing
// against it.
static bool stands_for(const struct member *m, const struct job *job)
{
    const struct conduct *conduct = map_get(&m->conduct, job->id);

    return conduct != NULL && conduct->good && !conduct->says;
}

// Says whether the worker could be asked and has reported nothing against the
// job.
static bool may_differ(const struct member *m, const struct job *job)
{
    return m->role == MEMBER_WORKER && job_suits(job, m) &&
           m->state == MEMBER_READY && m->owes.job == 0 &&
           !seated_elsewhere(m, job) && !doubts_has_said(m, job);
}

// Says whether all present workers doubt the job, and none that got on with it
// was lost a moment ago and may be back.
static bool all_say(const struct coord *c, const struct job *job)
{
    list_for(n, &c->members.all)
    {
        if (may_differ(list_entry(n, struct member, node), job))
            return false;
    }
    list_for(n, &c->members.lost)
    {
        const struct member *m = list_entry(n, struct member, node);

        if (stands_for(m, job) && coord_now(c) - m->seen_ms < CONDUCT_AGAIN_MS)
            return false;
    }
    return true;
}

// Notes that the worker doubts the job. Without memory it cannot be put aside.
static bool doubts_note_worker(struct member *m, const struct job *job)
{
    struct conduct *conduct = excluded_conduct(m, job);

    if (conduct != NULL)
        conduct->says = true;
    return conduct != NULL;
}

// ---- data that workers found

void doubts_first(struct job *job, const struct member *m)
{
    struct job_doubts *d = &job->doubts;

    d->first = m->witness;
    snprintf(d->name, sizeof(d->name), "%.60s on host %.60s", m->name, m->host);
}

static struct doubt *doubts_find_or_add(struct job_doubts *d, uint64_t witness)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->other[i].witness == witness)
            return &d->other[i];
    return d->count < JOB_DOUBTS ? &d->other[d->count++] : NULL;
}

static bool doubts_same_facts(const struct journal_facts *a,
                              const struct journal_facts *b)
{
    return a->train_samples == b->train_samples &&
           a->train_hash == b->train_hash &&
           a->test_samples == b->test_samples && a->test_hash == b->test_hash;
}

static uint32_t against(const struct job_doubts *d,
                        const struct journal_facts *facts)
{
    struct witness_tally t;

    witness_begin(&t, WITNESS_MOST);
    for (size_t i = 0; i < d->count; i++)
        if (doubts_same_facts(&d->other[i].facts, facts))
            witness_note(&t, d->other[i].witness);
    return witness_independent(&t);
}

// Counts the independent witnesses of the first data: its finder, and workers
// that computed steps of it.
static uint32_t in_favour(const struct coord *c, const struct job *job)
{
    struct witness_tally t;

    witness_begin(&t, WITNESS_MOST);
    if (job->doubts.first != 0)
        witness_note(&t, job->doubts.first);
    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);

        if (stands_for(m, job))
            witness_note(&t, m->witness);
    }
    return witness_independent(&t);
}

static void fail_outvoted(struct coord *c, const struct member *m,
                          struct job *job, const struct journal_facts *f,
                          uint32_t count)
{
    bool test = f->test_samples != 0 || f->test_hash != 0;

    end_fail(c, job,
             "data.%s was seen first%s%s, with %llu samples; %u independent "
             "workers found other files, %llu samples, the last of them %s on "
             "host %s. A job's samples keep their numbers, so it cannot go on "
             "with theirs: give all workers the same files and submit it again",
             test ? "test" : "train", job->doubts.first != 0 ? " by " : "",
             job->doubts.name,
             (ull)(test ? job->reports.facts.test_samples
                        : job->reports.facts.train_samples),
             count, (ull)(test ? f->test_samples : f->train_samples), m->name,
             m->host);
}

// Says whether more witnesses found this other data than stand for the first.
// After a restart the first finder is not known; then the workers that compute
// stand for its data.
static bool outvoted(struct coord *c, const struct member *m, struct job *job,
                     const Sluice__V1__DataFacts *found)
{
    struct journal_facts facts = job_facts_of(found);
    struct doubt *mine = doubts_find_or_add(&job->doubts, m->witness);
    uint32_t for_it = in_favour(c, job), count;

    if (mine != NULL)
        *mine = (struct doubt){m->witness, facts};
    count = against(&job->doubts, &facts);
    if (for_it == 0 || count < 2 || count <= for_it)
        return false;
    // The data of the majority does not take the place of the first: samples
    // are numbered by that, and counted steps would be of other samples.
    fail_outvoted(c, m, job, &facts, count);
    return true;
}

// ---- reports

bool doubts_data(const Sluice__V1__AttemptFailed *message)
{
    return message->data || message->code == SL_ENOENT ||
           message->code == SL_EDENIED || message->code == SL_ECORRUPT ||
           message->code == SL_EIO;
}

bool doubts_heard(struct coord *c, struct member *m, struct job *job,
                  const Sluice__V1__AttemptFailed *message)
{
    bool noted = doubts_note_worker(m, job);

    if (message->found != NULL && outvoted(c, m, job, message->found))
        return false;
    // An empty mount point or a half-copied folder on one worker must not end
    // the job of all others.
    if (noted && !all_say(c, job))
        return true;
    end_fail(c, job, "%s (said by worker '%s')", message->text, m->name);
    return false;
}

static void doubts_exclude_worker(struct coord *c, struct member *m,
                                  struct job *job, enum conduct_why why,
                                  const char *what, const char *text)
{
    char said[400];

    snprintf(said, sizeof(said), "%s: %.340s", what, text);
    jobs_warn(job, JOB_WARN_DATA,
              "worker %.60s %s; this worker, on host %.60s, is left out of "
              "this job and asked again in %u s",
              m->name, said, m->host, CONDUCT_AGAIN_MS / 1000);
    excluded_told(c, m, job, why, said);
}

void doubts_put_aside(struct coord *c, struct member *m, struct job *job,
                      const Sluice__V1__AttemptFailed *message)
{
    bool data = doubts_data(message);

    doubts_exclude_worker(c, m, job, data ? CONDUCT_DATA : CONDUCT_SAYS,
                          message->found != NULL ? "has other data"
                          : data                 ? "cannot read the data"
                                                 : "says that the job is wrong",
                          message->text);
}

bool doubts_samples(struct coord *c, struct member *m, struct job *job,
                    const Sluice__V1__StepMetrics *metrics)
{
    struct buf text = BUF_INIT;

    if (bad_fits(job, metrics) && bad_take(job, metrics))
        return true;
    if (doubts_note_worker(m, job) && !all_say(c, job)) {
        (void)buf_appendf(&text, "more than data.skip_bad (%u) allows: %s",
                          spec_skip_bad(job->spec),
                          metrics->bad[metrics->n_bad - 1]->what);
        doubts_exclude_worker(c, m, job, CONDUCT_DATA, "cannot read samples",
                              buf_text(&text));
    } else {
        (void)bad_take(job, metrics);
        bad_names(job, &text);
        end_fail(c, job, "data.skip_bad is %u, but %s",
                 spec_skip_bad(job->spec), buf_text(&text));
    }
    buf_release(&text);
    return false;
}

// ---- the end of a doubt

static bool any_says(const struct coord *c, const struct job *job)
{
    list_for(n, &c->members.all)
    {
        if (doubts_has_said(list_entry(n, struct member, node), job))
            return true;
    }
    return false;
}

void doubts_over(struct coord *c, struct member *m, struct job *job)
{
    struct conduct *conduct = map_get(&m->conduct, job->id);
    struct job_doubts *d = &job->doubts;

    if (conduct == NULL || !conduct->says)
        return;
    conduct->says = false;
    for (size_t i = 0; i < d->count; i++)
        if (d->other[i].witness == m->witness)
            d->other[i] = d->other[--d->count];
    if (!any_says(c, job))
        jobs_unwarn(job, JOB_WARN_DATA);
}
