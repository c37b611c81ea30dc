// SPDX-License-Identifier: Apache-2.0
// coordinator/core/offers.c -- the work that a job has for one worker, or any.
#include "coordinator/core/offers.h"

#include "common/base/num.h"
#include "coordinator/core/copies.h"
#include "coordinator/core/evaluations.h"
#include "coordinator/core/excluded.h"
#include "coordinator/core/groups.h"
#include "coordinator/core/leases.h"
#include "coordinator/core/queue.h"
#include "coordinator/core/rings.h"
#include "proto/spec.h"

void offers_begin(struct job *job)
{
    uint64_t freed = job->freed + job->evidence.admissions;

    // A window may be as long as thousands of workers need.
    if (job->scanned != freed)
        job->scan_from = 0;
    job->scanned = freed;
    job->spent = false;
}

// Says whether the worker computes closures of the job: a worker that stands by
// in a ring or a group has only its place.
static bool computes(const struct job *job, const struct member *m)
{
    if (!job->placed)
        return true;
    if (job->hybrid)
        return groups_leads(job, m);
    return !job->allreduce || rings_in(job, m);
}

// Says whether another worker could take a closure that not_this is blamed for.
static bool others(struct coord *c, const struct member *not_this,
                   const struct job *job, const struct closure *closure)
{
    uint64_t now = coord_now(c);

    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m != not_this && m->role == MEMBER_WORKER && job_suits(job, m) &&
            member_ready(m, now) && !excluded_now(c, m, job) &&
            !closure_blames(closure, m->witness) && computes(job, m))
            return true;
    }
    return false;
}

static bool avoids(struct coord *c, const struct member *m,
                   const struct job *job, const struct closure *closure)
{
    return closure_blames(closure, m->witness) && others(c, m, job, closure);
}

// Sync: says whether slots of rounds behind the open one are leased (Y4). With
// copies a worker without a slot of the open round is given a copy instead.
static bool leases_ahead(const struct job *job)
{
    return job->evidence.round > 0 && spec_backup(job->spec->train) == 0;
}

double offers_ahead_ms(const struct coord *c, const struct job *job,
                       const struct member *m)
{
    return leases_ahead(job) && m->waits_for_round && c->offers.wanting <= 1
               ? DISPATCH_ROUNDS_MS
               : DISPATCH_AHEAD_MS;
}

// Sync: returns how many rounds behind the open one this worker, or any (NULL),
// may have slots of: one each. A worker without a slot takes those left by
// workers with many.
static uint32_t rounds_ahead(const struct job *job, const struct member *m)
{
    if (m == NULL || map_get(&job->holders, m->id) == NULL)
        return DISPATCH_ROUNDS_MOST;
    return m->lease_most - 1;
}

// Returns the closure below which closures may be issued (C5), to this worker
// or to any (NULL).
static uint64_t offers_closure_limit(const struct coord *c,
                                     const struct job *job,
                                     const struct member *m)
{
    const Sluice__V1__TrainSpec *train = job->spec->train;

    if (leases_ahead(job) && (m == NULL || m->waits_for_round))
        return evidence_limit_ahead(&job->evidence, rounds_ahead(job, m));
    return evidence_limit(
        &job->evidence,
        dispatch_window(train->window_closures, c->members.workers,
                        SPEC_WINDOW_DEFAULT, spec_window_most(train)));
}

// Returns the first closure that some shard lacks a step of, that is not leased
// and that this worker, or any (NULL), may try; evidence.closures if there is
// none. Closures that were passed over for good are not looked at again until a
// lease ends undone, a shard is admitted, or a tick later (job->scan_from). No
// closure of a later round is returned while a slot of the open one is left, be
// it for another worker (Y4).
static uint64_t next_closure(struct coord *c, struct job *job,
                             const struct member *m)
{
    uint64_t limit =
        sl_min(offers_closure_limit(c, job, m), evaluations_limit(job));
    uint64_t open =
        job->evidence.round > 0 ? evidence_limit(&job->evidence, 0) : limit;
    uint64_t at = evidence_next(&job->evidence, job->scan_from);
    bool avoided = false;

    while (at < limit && !(avoided && at >= open)) {
        struct work *w = leases_get(job, at);
        bool free = (w == NULL || (w->closure.state == CLOSURE_WAITING &&
                                   w->copy == NULL)) &&
                    !evidence_closure_held(&job->evidence, at);

        if (!avoided)
            job->scan_from = at;
        if (free &&
            (w == NULL || (closure_ready(&w->closure, coord_now(c)) &&
                           (m == NULL || !avoids(c, m, job, &w->closure)))))
            return at;
        avoided |= free;
        at = evidence_next(&job->evidence, at + 1);
    }
    if (!avoided)
        job->scan_from = at;
    return job->evidence.closures;
}

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
    struct work *w = job->evaluation == NULL
                         ? NULL
                         : evaluation_offer(job->evaluation, m->witness, false);

    if (w == NULL && job->evaluation != NULL) {
        w = evaluation_offer(job->evaluation, m->witness, true);
        if (w != NULL && others(c, m, job, &w->closure))
            w = NULL;
    }
    return w == NULL ? (struct offer){.kind = WORK_NONE}
                     : (struct offer){.kind = WORK_EVALUATE, .work = w};
}

// Says whether the job's place must wait. A place holds its worker for long: it
// is not given while a job of a higher priority has nothing to offer only
// because it is still being placed.
static bool yields(const struct coord *c, const struct job *job)
{
    int32_t priority = spec_priority(job->spec->train);

    list_for(n, &c->jobs.active)
    {
        const struct job *other = list_entry(n, struct job, on_active);

        if (other->state == JOB_PLACING && !other->paused &&
            !queue_waits(other) && other->external == job->external &&
            c->members.psservers > 0 &&
            spec_priority(other->spec->train) > priority)
            return true;
    }
    return false;
}

// Offers a place in the ring, or to a rank with the state a range: ranks
// evaluate as well, between two rounds.
static struct offer offer_rank(struct coord *c, struct job *job,
                               const struct member *m)
{
    struct work *w;

    if (rings_held(m) == job)
        return job_served(job) && computes(job, m)
                   ? offer_range(c, job, m)
                   : (struct offer){.kind = WORK_NONE};
    w = yields(c, job) ? NULL : rings_offer(job);
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

// Sync: returns the end of the last round that the worker has a slot of, or of
// the open one: its next slot is of a later round, as the slots of a round are
// for different workers.
static uint64_t rounds_had(const struct job *job, const struct member *m)
{
    const struct evidence *e = &job->evidence;
    uint64_t end = evidence_limit(e, 0);

    list_for(n, &m->leases)
    {
        const struct work *w = list_entry(n, struct work, on_holder);

        if (w->job == job && w->kind == WORK_TRAIN && w->closure.id >= end)
            end = evidence_round_end(e, w->closure.id);
    }
    return end;
}

// Offers a worker with a slot of the open round one of a round behind it, so
// that the next step waits for the shards alone. Never beyond a slot that is
// for another worker: then the rounds ahead are taken by all, step by step.
static struct offer offer_ahead(struct coord *c, struct job *job,
                                const struct member *m)
{
    struct offer o = {.kind = WORK_NONE};

    if (!leases_ahead(job))
        return o;
    o.closure = next_closure(c, job, m);
    if (o.closure < job->evidence.closures && o.closure >= rounds_had(job, m))
        o.kind = WORK_TRAIN;
    return o;
}

// Offers a place in a group to a worker without one.
static struct offer offer_place(struct coord *c, struct job *job,
                                const struct member *m)
{
    struct work *w = yields(c, job) ? NULL : groups_offer(job, m);

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
        return offer_place(c, job, m);
    if (!computes(job, m))
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
        return offer_ahead(c, job, m);
    return offer_slot(c, job, m);
}

struct offer offers_for(struct coord *c, struct job *job,
                        const struct member *m)
{
    // A rank works for its own job alone.
    if (job_rests(job) || queue_waits(job) || excluded_now(c, m, job) ||
        (rings_held(m) != NULL && rings_held(m) != job))
        return (struct offer){.kind = WORK_NONE};
    return job_offer(c, job, m);
}

// ---- offers to any worker

// Says whether the job has a place in a ring or a group to give.
static bool has_place(const struct coord *c, const struct job *job)
{
    return (rings_want(job) || groups_want(job)) && !yields(c, job);
}

static bool has_range(const struct job *job)
{
    return job->evaluation != NULL &&
           evaluation_offer(job->evaluation, 0, true) != NULL;
}

static bool has_slot(struct coord *c, struct job *job)
{
    return next_closure(c, job, NULL) < job->evidence.closures ||
           copies_next(c, job) != NULL;
}

bool offers_any(struct coord *c, struct job *job, bool newcomer)
{
    if (job_rests(job))
        return false;
    if (newcomer && job->placed && (job->allreduce || job->hybrid))
        return has_place(c, job);
    if (job->state == JOB_PLACING)
        return !job->has_facts && !job->external &&
               closure_ready(&job->probe.closure, coord_now(c));
    if (!job_served(job))
        return false;
    if (has_range(job))
        return true;
    if (job->state != JOB_RUNNING || job->allreduce)
        return false;
    // Sync: the slots of a round are for different workers.
    if (!newcomer && job->evidence.round > 0)
        return leases_ahead(job) &&
               next_closure(c, job, NULL) < job->evidence.closures;
    return has_slot(c, job);
}
