// SPDX-License-Identifier: Apache-2.0
// coordinator/core/serve.c -- one pass over idle workers and what jobs offer
// them.
#include "coordinator/core/serve.h"

#include "coordinator/core/copies.h"
#include "coordinator/core/excluded.h"
#include "coordinator/core/groups.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases.h"
#include "coordinator/core/rings.h"
#include "coordinator/core/send.h"

// ---- what a job offers

// Some other worker could take what this one is blamed for. In a group only who
// leads is given any of it.
static bool others(struct coord *c, const struct member *not_this,
                   const struct job *job, const struct closure *closure)
{
    uint64_t now = coord_now(c);

    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m != not_this && m->role == MEMBER_WORKER &&
            m->external == not_this->external && member_ready(m, now) &&
            !excluded_now(c, m, job) && !closure_blames(closure, m->identity) &&
            (!job->hybrid || !job->placed || groups_leads(job, m)))
            return true;
    }
    return false;
}

static bool avoids(struct coord *c, const struct member *m,
                   const struct job *job, const struct closure *closure)
{
    return closure_blames(closure, m->identity) && others(c, m, job, closure);
}

// The first closure that some shard lacks a step of, that nobody has and that
// this worker may try; evidence.closures if there is none. Within one pass of
// dispatch evidence stands still and leases only come, so what was passed over
// for good is not looked at again (job->scan_from).
static uint64_t next_closure(struct coord *c, struct job *job,
                             const struct member *m)
{
    uint64_t limit =
        evidence_limit(&job->evidence, job->spec->train->window_closures);
    uint64_t at = evidence_next(&job->evidence, job->scan_from);
    bool avoided = false;

    while (at < limit) {
        struct work *w = leases_get(job, at);
        bool free = (w == NULL || (w->closure.state == CLOSURE_WAITING &&
                                   w->copy == NULL)) &&
                    !evidence_closure_held(&job->evidence, at);

        if (!avoided)
            job->scan_from = at;
        if (free && (w == NULL || (closure_ready(&w->closure, coord_now(c)) &&
                                   !avoids(c, m, job, &w->closure))))
            return at;
        avoided |= free;
        at = evidence_next(&job->evidence, at + 1);
    }
    if (!avoided)
        job->scan_from = at;
    return job->evidence.closures;
}

struct offer {
    enum work_kind kind;
    struct work *work;    // probe and evaluation
    uint64_t closure;     // WORK_TRAIN
    struct work *copy_of; // WORK_TRAIN: what it is to be a copy of, or NULL
};

static struct offer offer_probe(struct coord *c, struct job *job,
                                const struct member *m)
{
    struct work *w = &job->probe;

    if (job->has_facts || job->external ||
        !closure_ready(&w->closure, coord_now(c)) ||
        avoids(c, m, job, &w->closure))
        return (struct offer){.kind = WORK_NONE};
    return (struct offer){.kind = WORK_PROBE, .work = w};
}

static struct offer offer_range(struct coord *c, struct job *job,
                                const struct member *m)
{
    struct work *w =
        job->evaluation == NULL
            ? NULL
            : evaluation_offer(job->evaluation, m->identity, false);

    if (w == NULL && job->evaluation != NULL) {
        w = evaluation_offer(job->evaluation, m->identity, true);
        if (w != NULL && others(c, m, job, &w->closure))
            w = NULL;
    }
    return w == NULL ? (struct offer){.kind = WORK_NONE}
                     : (struct offer){.kind = WORK_EVALUATE, .work = w};
}

// Ranks evaluate as well, between two rounds.
static struct offer offer_rank(struct coord *c, struct job *job,
                               const struct member *m)
{
    struct work *w;

    if (rings_held(m) == job)
        return job_served(job) ? offer_range(c, job, m)
                               : (struct offer){.kind = WORK_NONE};
    w = rings_offer(job);
    return w == NULL ? (struct offer){.kind = WORK_NONE}
                     : (struct offer){.kind = WORK_RING, .work = w};
}

static struct offer offer_slot(struct coord *c, struct job *job,
                               const struct member *m)
{
    struct offer o = {.kind = WORK_NONE, .closure = next_closure(c, job, m)};

    if (o.closure == job->evidence.closures) {
        o.copy_of = copies_next(c, job);
        if (o.copy_of == NULL || avoids(c, m, job, &o.copy_of->closure))
            return (struct offer){.kind = WORK_NONE};
    }
    o.kind = WORK_TRAIN;
    return o;
}

// A worker without a place is given one.
static struct offer offer_place(struct job *job, const struct member *m)
{
    struct work *w = groups_offer(job, m);

    return w == NULL ? (struct offer){.kind = WORK_NONE}
                     : (struct offer){.kind = WORK_RING, .work = w};
}

static struct offer job_offer(struct coord *c, struct job *job,
                              const struct member *m)
{
    struct offer o;

    if (job->allreduce && job->placed)
        return offer_rank(c, job, m);
    if (job->hybrid && job->placed && rings_held(m) != job)
        return offer_place(job, m);
    if (job->hybrid && job->placed && !groups_leads(job, m))
        return (struct offer){.kind = WORK_NONE};
    if (job->state == JOB_PLACING)
        return offer_probe(c, job, m);
    if (!job_served(job)) // a push would only wait for the shard
        return (struct offer){.kind = WORK_NONE};
    o = offer_range(c, job, m);
    if (o.kind != WORK_NONE || job->state != JOB_RUNNING)
        return o;
    // Sync: the slots of a round are for different workers at the same time.
    if (job->evidence.round > 0 && map_get(&job->holders, m->id) != NULL)
        return o;
    return offer_slot(c, job, m);
}

// ---- who is served

static struct dispatch_job describe(const struct job *job,
                                    const struct member *m)
{
    return (struct dispatch_job){
        .external = job->external,
        .held_here = map_get(&job->holders, m->id) != NULL,
        .held = job->held,
        .workers = (uint32_t)job->holders.len,
        .max_workers = job->spec->train->max_workers,
        .served = job->served,
    };
}

static struct offer offer_of(struct coord *c, struct job *job,
                             const struct member *m)
{
    // A rank does nothing else but for its own job.
    if (job->paused || excluded_now(c, m, job) ||
        (rings_held(m) != NULL && rings_held(m) != job))
        return (struct offer){.kind = WORK_NONE};
    return job_offer(c, job, m);
}

static bool give(struct coord *c, struct member *m, struct job *job,
                 const struct offer *o)
{
    struct work *w = o->kind != WORK_TRAIN ? o->work
                     : o->copy_of != NULL  ? copies_new(o->copy_of)
                                           : leases_work(job, o->closure);

    if (w == NULL)
        return false;
    if (!leases_give(c, m, w)) {
        leases_settle(c, w);
        return false;
    }
    excluded_readmit(c, m, job);
    return true;
}

static bool serve(struct coord *c, struct member *m)
{
    struct dispatch_worker w = {
        .leases = member_computes(m),
        .most = m->lease_most,
        .ready = member_ready(m, coord_now(c)),
        .external = m->external,
    };
    struct dispatch_job first = {0};
    struct job *chosen = NULL;
    struct offer offer = {.kind = WORK_NONE};

    if (!dispatch_worker_free(&w))
        return false;
    // Whether a job would come first is cheaper to see than what it has: with
    // hundreds of jobs only a few are asked.
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);
        struct dispatch_job is = describe(job, m);
        struct offer o;

        if (!dispatch_fits(&w, &is) ||
            (chosen != NULL && !dispatch_before(&is, &first)))
            continue;
        o = offer_of(c, job, m);
        if (o.kind == WORK_NONE)
            continue;
        chosen = job;
        first = is;
        offer = o;
    }
    return chosen != NULL && give(c, m, chosen, &offer);
}

// May a job have something for a worker, whoever that is? `newcomer`: for one
// that holds nothing of it. What was found exhausted in this pass is not asked
// again for each of a thousand workers.
static bool may_offer(struct coord *c, struct job *job, bool newcomer)
{
    const Sluice__V1__TrainSpec *train = job->spec->train;

    if (job->paused)
        return false;
    if (newcomer && train->max_workers != 0 &&
        job->holders.len >= train->max_workers)
        return false;
    if (rings_want(job) || (newcomer && groups_want(job)))
        return true;
    if (job->state == JOB_PLACING)
        return !job->has_facts && !job->external; // the probe
    if (!job_served(job))
        return false;
    if (job->evaluation != NULL)
        return true;
    if (job->state != JOB_RUNNING || job->allreduce)
        return false;
    return job->scan_from <
               evidence_limit(&job->evidence, train->window_closures) ||
           copies_next(c, job) != NULL;
}

static bool any_offers(struct coord *c, bool newcomer)
{
    list_for(j, &c->jobs.active)
    {
        if (may_offer(c, list_entry(j, struct job, on_active), newcomer))
            return true;
    }
    return false;
}

// Serves those who hold so many leases, until nothing is left for them.
static void serve_all(struct coord *c, uint32_t have)
{
    bool more = any_offers(c, have == 0);

    list_for_safe(n, &c->members.open[have])
    {
        if (!more || c->dead)
            return;
        if (!serve(c, list_entry(n, struct member, open)))
            more = any_offers(c, have == 0);
    }
}

void serve_workers(struct coord *c)
{
    list_for(j, &c->jobs.active)
    {
        list_entry(j, struct job, on_active)->scan_from = 0;
    }
    for (uint32_t have = 0; have < DISPATCH_LEASES_MOST; have++)
        serve_all(c, have);
    if (c->dead)
        return;
    list_for_safe(n, &c->members.unsent)
    {
        struct member *m = list_entry(n, struct member, unsent);

        list_remove(n);
        send_leases(c, m);
    }
    // Counters of what was just leased again.
    list_for(j, &c->jobs.active)
    {
        jobs_flush(c, list_entry(j, struct job, on_active));
    }
}
