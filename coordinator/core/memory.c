// SPDX-License-Identifier: Apache-2.0
// coordinator/core/memory.c -- see memory.h.
#include "coordinator/core/memory.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/core/happened.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/pause.h"
#include "proto/spec.h"

// One part in GOOD_PART of a psserver's memory: a job that needs less does not
// end the psserver.
#define GOOD_PART 4

static uint64_t mib(uint64_t bytes)
{
    return (bytes + (UINT64_C(1) << 20) - 1) >> 20;
}

// ---- workers

static uint64_t vector_bytes(const struct job *job)
{
    return job->parameters * sizeof(float);
}

// Appends the memory that a worker needs: vectors of the size of the model, as
// worker/lease/job.c counts them.
static void need_worker(struct buf *out, const struct job *job)
{
    unsigned slots = spec_optimizer_slots(job->spec->optimizer);
    unsigned vectors = job->allreduce ? 3 + slots : 2;

    buf_appendf(out,
                ". The job needs at least %llu MiB in each worker (%u x %llu: "
                "parameters, gradients%s), besides activations and data",
                (ull)mib(vectors * vector_bytes(job)), vectors,
                (ull)mib(vector_bytes(job)),
                !job->allreduce ? ""
                : slots == 0    ? ", their sum"
                                : ", their sum, optimizer slots");
}

void memory_vanished(struct buf *out, const struct work *w)
{
    if (!w->vanished || w->story.len == 0)
        return;
    buf_append_str(out, "; each time the worker vanished without a word, "
                        "perhaps killed by its host's kernel for want of "
                        "memory: look for exit code 137, `dmesg`, and oom_kill "
                        "in memory.events of its cgroup");
    if (w->job->placed)
        need_worker(out, w->job);
    if (w->least_memory > 0)
        buf_appendf(out, "; one that was lost may use %llu MiB",
                    (ull)w->least_memory >> 20);
    buf_append_str(out, "; give workers more memory, or take a smaller model "
                        "or batch");
}

// ---- what shards need

// What a psserver needs of a job's shards at least.
struct need {
    struct job_shard *first; // the first of the job's shards there; NULL: none
    uint32_t shards;
    uint64_t bytes; // all kept bytes, and the copy of one shard for a snapshot
};

static struct need need_of(const struct job *job, const char *psserver)
{
    unsigned vectors = 1 + spec_optimizer_slots(job->spec->optimizer);
    uint64_t kept = spec_kept_vectors(job->spec);
    struct need need = {.first = NULL};
    uint64_t largest = 0;

    for (uint32_t i = 0; !job->allreduce && i < job->shards; i++) {
        struct job_shard *s = &job->shard[i];
        uint64_t vector = s->elements * sizeof(float);

        if (strcmp(s->psserver, psserver) != 0)
            continue;
        if (need.first == NULL)
            need.first = s;
        need.shards++;
        need.bytes += vector * kept;
        if (vector * vectors > largest)
            largest = vector * vectors;
    }
    need.bytes += largest;
    return need;
}

bool memory_holds(const struct job *job)
{
    return job->pause.row.state == JOURNAL_PAUSE_HOLDS &&
           strcmp(job->pause.row.who, PAUSE_BY_US) == 0;
}

// Returns the bytes that the psserver needs for all jobs but those held.
static uint64_t need_of_all(const struct coord *c, const struct member *m)
{
    uint64_t bytes = 0;

    list_for(n, &c->jobs.active)
    {
        const struct job *job = list_entry(n, struct job, on_active);

        if (!memory_holds(job))
            bytes += need_of(job, m->name).bytes;
    }
    return bytes;
}

// Writes why the psserver's memory is too small for the job; returns false if
// the job has no shard there, or they fit.
static bool too_little(struct coord *c, const struct job *job,
                       const struct member *m, char *out, size_t size)
{
    struct need need = need_of(job, m->name);
    uint64_t all = need_of_all(c, m);
    char others[80] = "";

    if (memory_holds(job)) // a held job counts here as well
        all += need.bytes;
    if (need.first == NULL || m->memory_bytes == 0 || all <= m->memory_bytes)
        return false;
    if (all > need.bytes)
        snprintf(others, sizeof(others), ", and %llu MiB for other jobs",
                 (ull)mib(all - need.bytes));
    snprintf(out, size,
             "psserver %.60s needs at least %llu MiB for its %u shards of this "
             "job (values, %u optimizer slots, a copy for snapshots)%s, and "
             "may use %llu MiB: the kernel will kill it; give it more memory, "
             "or submit the job anew with more psservers",
             m->name, (ull)mib(need.bytes), need.shards,
             spec_optimizer_slots(job->spec->optimizer), others,
             (ull)m->memory_bytes >> 20);
    return true;
}

// Warns of the first psserver with too little memory, or removes the warning.
static void judge(struct coord *c, struct job *job)
{
    char text[400];

    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);
        const char *said = job->warnings[JOB_WARN_MEMORY];

        if (m->role != MEMBER_PSSERVER ||
            !too_little(c, job, m, text, sizeof(text)))
            continue;
        if (said == NULL || strcmp(said, text) != 0)
            happened_job(c, EVENT_MEMORY_SHORT, job, m, "%s", text);
        jobs_warn(job, JOB_WARN_MEMORY, "%s", text);
        return;
    }
    jobs_unwarn(job, JOB_WARN_MEMORY);
}

void memory_placed(struct coord *c, struct job *job)
{
    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);
        struct job_shard *s = need_of(job, m->name).first;

        if (m->role == MEMBER_PSSERVER && s != NULL)
            s->losses = (struct job_losses){.process = m->process};
    }
    judge(c, job);
}

// ---- losses

static void forget(struct job_shard *s)
{
    s->losses.stepless = s->losses.cutless = 0;
}

// Returns a number that changes whenever a step is counted, or forgotten.
static uint64_t progress_of(const struct job *job)
{
    uint64_t steps = job->good_steps;

    for (uint32_t i = 0; i < job->shards; i++)
        steps += job->shard[i].counts.counted;
    return steps;
}

static void count_loss(struct job *job, struct job_losses *l,
                       const struct member *m)
{
    uint64_t steps = progress_of(job), cuts = job->cuts_published;
    bool lost = l->process != 0 && l->process != m->process;

    // A paused job is to take no step.
    l->stepless = steps != l->steps || job_rests(job) ? 0 : l->stepless + lost;
    l->cutless = cuts != l->cuts ? 0 : l->cutless + lost;
    l->process = m->process;
    l->steps = steps;
    l->cuts = cuts;
}

static void hold(struct coord *c, struct job *job, const struct member *m,
                 uint64_t all)
{
    uint64_t own = need_of(job, m->name).bytes;
    char why[400], others[80] = "";

    if (all > own)
        snprintf(others, sizeof(others), " (%llu MiB with other jobs)",
                 (ull)mib(all));
    snprintf(why, sizeof(why),
             "psserver %.60s was lost %d times in a row without a %s: its "
             "shards need at least %llu MiB%s, it may use %llu MiB",
             m->name, MEMORY_LOSSES,
             all > m->memory_bytes ? "checkpoint" : "step", (ull)mib(own),
             others, (ull)m->memory_bytes >> 20);
    pause_hold(c, job, why,
               "look for exit code 137, `dmesg`, and oom_kill in memory.events "
               "of its cgroup; give it more memory, or stop the job and submit "
               "it with more psservers");
    happened_job(c, EVENT_MEMORY_SHORT, job, m, "%s is held: %s", job->name,
                 why);
}

// Returns the job that needs most of the psserver, among those that may be why
// it was lost; NULL if there is none.
static struct job *count_losses(struct coord *c, const struct member *m,
                                uint64_t all)
{
    struct job *worst = NULL;
    uint64_t most = 0;

    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);
        struct need need = need_of(job, m->name);
        struct job_losses *l;

        if (need.first == NULL || job->paused || memory_holds(job))
            continue;
        l = &need.first->losses;
        count_loss(job, l, m);
        if ((all > m->memory_bytes ? l->cutless : l->stepless) <
                MEMORY_LOSSES ||
            need.bytes <= most)
            continue;
        worst = job;
        most = need.bytes;
    }
    return worst;
}

void memory_came(struct coord *c, const struct member *m)
{
    uint64_t all = need_of_all(c, m);
    struct job *worst = count_losses(c, m, all);

    if (worst != NULL && m->memory_bytes > 0 &&
        all > m->memory_bytes / GOOD_PART)
        hold(c, worst, m, all);
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);
        struct job_shard *s = need_of(job, m->name).first;

        if (c->dead)
            return;
        if (s == NULL)
            continue;
        if (worst != NULL)
            forget(s); // without that job the losses mean something else
        judge(c, job);
    }
}

void memory_left(struct coord *c, const struct member *m)
{
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);
        struct job_shard *s = need_of(job, m->name).first;

        if (s != NULL)
            s->losses = (struct job_losses){.process = 0};
    }
}

void memory_resumed(struct job *job)
{
    for (uint32_t i = 0; i < job->shards; i++)
        forget(&job->shard[i]);
}
