// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/memory.c -- see memory.h.
#include "coordinator/core/shards/memory.h"

#include <stdio.h>
#include <string.h>

#include "common/base/map.h"
#include "common/base/mem.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/mode.h"
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

static uint64_t memory_vector_bytes(const struct job *job)
{
    return job->shards.parameters * sizeof(float);
}

// Appends the memory that a worker needs: vectors of the size of the model, as
// worker/lease/job.c counts them.
static void need_worker(struct buf *out, const struct job *job)
{
    unsigned slots = spec_optimizer_slots(spec_shard_optimizer(job->spec));
    unsigned vectors = job->mode->on_workers ? 3 + slots : 2;

    buf_appendf(out,
                ". The job needs at least %llu MiB in each worker (%u x %llu: "
                "parameters, gradients%s), besides activations and data",
                (ull)mib(vectors * memory_vector_bytes(job)), vectors,
                (ull)mib(memory_vector_bytes(job)),
                !job->mode->on_workers ? ""
                : slots == 0           ? ", their sum"
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
    if (w->job->shards.placed)
        need_worker(out, w->job);
    if (w->least_memory > 0)
        buf_appendf(out, "; one that was lost may use %llu MiB",
                    (ull)w->least_memory >> 20);
    buf_append_str(out, "; give workers more memory, or take a smaller model "
                        "or batch");
}

// ---- what shards need

// What a psserver needs at least: of one job, and of all but those held.
struct need {
    const struct member *m;
    uint64_t look;           // number of the look that set what follows
    struct job_shard *first; // the first of the job's shards there; NULL: none
    uint32_t shards, replicas;
    uint64_t bytes; // all kept bytes, and the copy of one shard for a snapshot
    uint64_t copy;  // that copy
    uint64_t all;
};

// Adds what a shard needs, or a replica: that has as many vectors.
static void need_add_bytes(struct need *need, const struct job *job,
                           const struct job_shard *s)
{
    unsigned vectors =
        1 + spec_optimizer_slots(spec_shard_optimizer(job->spec));
    uint64_t vector = s->elements * sizeof(float);

    need->bytes += vector * spec_kept_vectors(job->spec);
    if (vector * vectors > need->copy) {
        need->bytes += vector * vectors - need->copy;
        need->copy = vector * vectors;
    }
}

static void need_add_shard(struct need *need, const struct job *job,
                           struct job_shard *s)
{
    if (need->first == NULL)
        need->first = s;
    need->shards++;
    need_add_bytes(need, job, s);
}

static void need_add_replica(struct need *need, const struct job *job,
                             const struct job_shard *s)
{
    need->replicas++;
    need_add_bytes(need, job, s);
}

// Returns what one psserver needs of the job.
static struct need need_of(const struct job *job, const char *psserver)
{
    struct need need = {.first = NULL};

    for (uint32_t i = job->shards.parts; i < job->shards.count; i++) {
        struct job_shard *s = &job->shards.list[i];
        const char *replica = job_replica(s);

        if (strcmp(s->psserver, psserver) == 0)
            need_add_shard(&need, job, s);
        else if (replica != NULL && strcmp(replica, psserver) == 0)
            need_add_replica(&need, job, s);
    }
    return need;
}

bool memory_holds(const struct job *job)
{
    return job->pause.row.state == JOURNAL_PAUSE_HOLDS &&
           strcmp(job->pause.row.who, PAUSE_BY_US) == 0;
}

// What each attached psserver needs. Each shard is looked at a few times,
// however many psservers and jobs there are.
struct needs {
    struct strmap by_name; // of struct need, in `list`
    struct need *list;
    struct need **seen; // those with shards or replicas of the job looked at
    size_t seen_count;
    uint64_t looks;
};

// Returns the need of the psserver of this name, that of no other job; NULL: it
// is not attached, or there is no name.
static struct need *needs_get(struct needs *ns, const char *psserver)
{
    struct need *need =
        psserver == NULL ? NULL : strmap_get(&ns->by_name, psserver);

    if (need == NULL || need->look == ns->looks)
        return need;
    *need = (struct need){.m = need->m, .look = ns->looks, .all = need->all};
    ns->seen[ns->seen_count++] = need;
    return need;
}

// Sets what each psserver needs of the job.
static void needs_look(struct needs *ns, struct job *job)
{
    ns->looks++;
    ns->seen_count = 0;
    for (uint32_t i = job->shards.parts; i < job->shards.count; i++) {
        struct job_shard *s = &job->shards.list[i];
        struct need *own = needs_get(ns, s->psserver);
        struct need *replica = needs_get(ns, job_replica(s));

        if (own != NULL)
            need_add_shard(own, job, s);
        if (replica != NULL)
            need_add_replica(replica, job, s);
    }
}

static void needs_release(struct needs *ns)
{
    strmap_release(&ns->by_name);
    sl_free(ns->list);
    sl_free(ns->seen);
}

static bool needs_made(const struct needs *ns)
{
    return ns->list != NULL && ns->seen != NULL;
}

// Sums what the psservers need of all jobs. Returns false without memory.
static bool needs_init(struct needs *ns, const struct coord *c)
{
    size_t count = 0;
    enum sl_err rc = SL_OK;

    *ns = (struct needs){
        .list = sl_calloc(c->members.psservers, sizeof(*ns->list)),
        .seen = sl_malloc_array(c->members.psservers, sizeof(*ns->seen))};
    strmap_init(&ns->by_name);
    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);

        if (m->role != MEMBER_PSSERVER || !needs_made(ns) || rc != SL_OK)
            continue;
        ns->list[count].m = m;
        rc = strmap_put(&ns->by_name, m->name, &ns->list[count++]);
    }
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);

        if (memory_holds(job) || job_psserver_shards(job) == 0)
            continue;
        needs_look(ns, job);
        for (size_t i = 0; i < ns->seen_count; i++)
            ns->seen[i]->all += ns->seen[i]->bytes;
    }
    if (rc == SL_OK && needs_made(ns))
        return true;
    needs_release(ns);
    return false;
}

// Writes why the psserver's memory is too small for the job that was looked at;
// returns false if they fit.
static bool too_little(const struct job *job, const struct need *need,
                       char *out, size_t size)
{
    const struct member *m = need->m;
    uint64_t all = need->all;
    char others[80] = "", replicas[40] = "";

    if (memory_holds(job)) // a held job counts here as well
        all += need->bytes;
    if (m->memory_bytes == 0 || all <= m->memory_bytes)
        return false;
    if (all > need->bytes)
        snprintf(others, sizeof(others), ", and %llu MiB for other jobs",
                 (ull)mib(all - need->bytes));
    if (need->replicas > 0)
        snprintf(replicas, sizeof(replicas), " and %u replicas",
                 need->replicas);
    snprintf(out, size,
             "psserver %.60s needs at least %llu MiB for its %u shards%s of "
             "this job (values, %u optimizer slots, a copy for snapshots)%s, "
             "and may use %llu MiB: the kernel will kill it; give it more "
             "memory, or submit the job anew with more psservers",
             m->name, (ull)mib(need->bytes), need->shards, replicas,
             spec_optimizer_slots(spec_shard_optimizer(job->spec)), others,
             (ull)m->memory_bytes >> 20);
    return true;
}

// Returns true if the warning `said` (NULL: none) names the psserver already:
// an event for each replica more would be one for each shard.
static bool names_psserver(const char *said, const struct member *m)
{
    char words[100];
    int len = snprintf(words, sizeof(words), "psserver %.60s needs ", m->name);

    return said != NULL && strncmp(said, words, (size_t)len) == 0;
}

// Warns of the first psserver with too little memory, or removes the warning.
static void memory_update_warning(struct coord *c, struct needs *ns,
                                  struct job *job)
{
    char text[500];

    needs_look(ns, job);
    for (size_t i = 0; i < ns->seen_count; i++) {
        const struct need *need = ns->seen[i];

        if (!too_little(job, need, text, sizeof(text)))
            continue;
        if (!names_psserver(job->warnings[JOB_WARN_MEMORY], need->m))
            happened_job(c, EVENT_MEMORY_SHORT, job, need->m, "%s", text);
        jobs_warn(job, JOB_WARN_MEMORY, "%s", text);
        return;
    }
    jobs_unwarn(job, JOB_WARN_MEMORY);
}

void memory_placed(struct coord *c, struct job *job)
{
    struct needs ns;

    if (!needs_init(&ns, c))
        return;                         // no memory: the job gets no warning
    memory_update_warning(c, &ns, job); // looks at the job
    for (size_t i = 0; i < ns.seen_count; i++)
        ns.seen[i]->first->losses =
            (struct job_losses){.process = ns.seen[i]->m->process};
    needs_release(&ns);
}

void memory_replicas(struct coord *c, struct job *job)
{
    struct needs ns;

    if (!needs_init(&ns, c))
        return; // no memory: the warning stays as it is
    memory_update_warning(c, &ns, job);
    needs_release(&ns);
}

// ---- losses

static void memory_reset_losses(struct job_shard *s)
{
    s->losses.stepless = s->losses.cutless = 0;
}

// Returns a number that changes whenever a step is counted, or forgotten.
static uint64_t progress_of(const struct job *job)
{
    uint64_t steps = job->reports.good_steps;

    for (uint32_t i = 0; i < job->shards.count; i++)
        steps += job->shards.list[i].counts.counted;
    return steps;
}

static void count_loss(struct job *job, struct job_losses *l,
                       const struct member *m)
{
    uint64_t steps = progress_of(job), cuts = job->cuts.published;
    bool lost = l->process != 0 && l->process != m->process;

    // A paused job is to take no step.
    l->stepless = steps != l->steps || job_rests(job) ? 0 : l->stepless + lost;
    l->cutless = cuts != l->cuts ? 0 : l->cutless + lost;
    l->process = m->process;
    l->steps = steps;
    l->cuts = cuts;
}

static void memory_hold_job(struct coord *c, struct job *job,
                            const struct member *m, uint64_t all)
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

        if (need.first == NULL || job->behind.paused || memory_holds(job))
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

// Looks at the jobs with shards on the psserver anew; `forgets` their losses.
static void judge_all(struct coord *c, const struct member *m, bool forgets)
{
    struct needs ns;

    if (!needs_init(&ns, c))
        return; // no memory: warnings and losses stay as they are
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);
        struct need need = need_of(job, m->name);

        if (need.shards + need.replicas == 0 || c->dead)
            continue;
        if (forgets && need.first != NULL)
            memory_reset_losses(need.first);
        memory_update_warning(c, &ns, job);
    }
    needs_release(&ns);
}

void memory_came(struct coord *c, const struct member *m)
{
    const struct need *need;
    struct job *worst;
    struct needs ns;
    uint64_t all;

    if (!needs_init(&ns, c))
        return; // no memory: warnings and losses stay as they are
    need = strmap_get(&ns.by_name, m->name);
    all = need != NULL ? need->all : 0;
    needs_release(&ns);
    worst = count_losses(c, m, all);
    if (worst != NULL && m->memory_bytes > 0 &&
        all > m->memory_bytes / GOOD_PART)
        memory_hold_job(c, worst, m, all);
    // Without that job the losses mean something else.
    if (!c->dead)
        judge_all(c, m, worst != NULL);
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
    for (uint32_t i = 0; i < job->shards.count; i++)
        memory_reset_losses(&job->shards.list[i]);
}
