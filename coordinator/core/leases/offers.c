// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/offers.c -- the work that a job has for one worker,
// or any.
#include "coordinator/core/leases/offers.h"

#include <math.h>

#include "common/base/num.h"
#include "coordinator/core/modes/copies.h"
#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/leases/excluded.h"
#include "coordinator/core/leases/guard.h"
#include "coordinator/core/job.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/leases/paces.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/job_queue.h"
#include "proto/spec.h"

void offers_begin(struct job *job)
{
    uint64_t freed = job->leases.freed + job->shards.evidence.admissions;

    // A window may be as long as thousands of workers need.
    if (job->offers.scanned != freed)
        job->offers.scan_from = 0;
    job->offers.scanned = freed;
}

// Says whether the worker computes closures of the job: a worker that stands by
// in a ring or a group has only its place.
static bool computes(const struct job *job, const struct member *m)
{
    if (!job->shards.placed)
        return true;
    return job->mode->computes == NULL || job->mode->computes(job, m);
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
    return (closure_blames(closure, m->witness) &&
            others(c, m, job, closure)) ||
           guard_avoids(c, m, job, closure->id);
}

uint32_t offers_leases_most(const struct job *job)
{
    const Sluice__V1__TrainSpec *train = job->spec->train;

    // A stream's leases end one by one.
    if (!spec_sets(train) || spec_streams(train))
        return DISPATCH_LEASES_MOST;
    return 2 * spec_inner_closures(train) > DISPATCH_LEASES_MOST
               ? 2 * spec_inner_closures(train)
               : DISPATCH_LEASES_MOST;
}

double offers_ahead_ms(struct coord *c, struct job *job, const struct member *m)
{
    bool ahead = job->mode->ahead != NULL && job->mode->ahead(job);
    uint32_t each = paces_closures(c, job, m);

    if (each > 0) // a contribution, and the next one
        return m->lease_ms * (2 * each + 0.5);
    // A contribution takes as many as it wants, and a stream does, however long
    // they last.
    if (spec_sets(job->spec->train) || spec_streams(job->spec->train))
        return INFINITY;
    return ahead && m->waits_for_round && c->offers.wanting <= 1
               ? DISPATCH_ROUNDS_MS
               : DISPATCH_AHEAD_MS;
}

// Returns the closures that may be issued to this worker, or to any (NULL).
static struct mode_span offers_span(const struct coord *c,
                                    const struct job *job,
                                    const struct member *m)
{
    const Sluice__V1__TrainSpec *train = job->spec->train;
    uint64_t limit;

    if (job->mode->span != NULL)
        return job->mode->span(job, m);
    limit = evidence_limit(
        &job->shards.evidence,
        dispatch_window(train->window_closures, c->members.workers,
                        SPEC_WINDOW_DEFAULT, spec_window_most(train)));
    return (struct mode_span){.limit = limit, .open = limit};
}

// No closure of a later round is returned while a slot of the open one is left,
// be it for another worker (Y4).
uint64_t offers_next(struct coord *c, struct job *job, const struct member *m)
{
    struct mode_span span = offers_span(c, job, m);
    uint64_t limit = sl_min(span.limit, evaluations_limit(job));
    uint64_t at = evidence_next(&job->shards.evidence, job->offers.scan_from);
    bool avoided = false;

    while (at < limit && !(avoided && at >= span.open)) {
        struct work *w = leases_get(job, at);
        bool free = (w == NULL || (w->closure.state == CLOSURE_WAITING &&
                                   w->copy == NULL)) &&
                    !evidence_closure_held(&job->shards.evidence, at);

        if (!avoided)
            job->offers.scan_from = at;
        if (free &&
            (w == NULL || (closure_ready(&w->closure, coord_now(c)) &&
                           (m == NULL || !avoids(c, m, job, &w->closure)))))
            return at;
        avoided |= free;
        at = evidence_next(&job->shards.evidence, at + 1);
    }
    if (!avoided)
        job->offers.scan_from = at;
    return job->shards.evidence.closures;
}

static struct offer offer_probe(struct coord *c, struct job *job,
                                const struct member *m)
{
    struct work *w = &job->leases.probe;

    if (job->reports.has_facts || job->external ||
        !closure_ready(&w->closure, coord_now(c)) ||
        avoids(c, m, job, &w->closure))
        return (struct offer){.kind = WORK_NONE};
    return (struct offer){.kind = WORK_PROBE, .work = w};
}

struct offer offers_range(struct coord *c, struct job *job,
                          const struct member *m)
{
    struct work *w =
        job->evaluations.running == NULL
            ? NULL
            : evaluation_offer(job->evaluations.running, m->witness, false);

    if (w == NULL && job->evaluations.running != NULL) {
        w = evaluation_offer(job->evaluations.running, m->witness, true);
        if (w != NULL && others(c, m, job, &w->closure))
            w = NULL;
    }
    return w == NULL ? (struct offer){.kind = WORK_NONE}
                     : (struct offer){.kind = WORK_EVALUATE, .work = w};
}

bool offers_yields(const struct coord *c, const struct job *job)
{
    int32_t priority = spec_priority(job->spec->train);

    list_for(n, &c->jobs.active)
    {
        const struct job *other = list_entry(n, struct job, on_active);

        if (other->state == JOB_PLACING && !other->behind.paused &&
            !queue_waits(other) && other->external == job->external &&
            c->members.psservers > 0 &&
            spec_priority(other->spec->train) > priority)
            return true;
    }
    return false;
}

struct offer offers_place(struct work *w)
{
    return w == NULL ? (struct offer){.kind = WORK_NONE}
                     : (struct offer){.kind = WORK_RING, .work = w};
}

struct offer offers_slot(struct coord *c, struct job *job,
                         const struct member *m)
{
    struct offer o = {.kind = WORK_NONE, .closure = offers_next(c, job, m)};

    if (o.closure == job->shards.evidence.closures) {
        o.copy_of = copies_next(c, job);
        if (o.copy_of == NULL || avoids(c, m, job, &o.copy_of->closure))
            return (struct offer){.kind = WORK_NONE};
    }
    o.kind = WORK_TRAIN;
    return o;
}

struct offer offers_work(struct coord *c, struct job *job,
                         const struct member *m)
{
    struct offer o = {.kind = WORK_NONE};

    if (!job_served(job)) // a push would only wait for the shard
        return o;
    o = offers_range(c, job, m);
    return o.kind != WORK_NONE || job->state != JOB_RUNNING
               ? o
               : job->mode->slot(c, job, m);
}

static struct offer job_offer(struct coord *c, struct job *job,
                              const struct member *m)
{
    return job->shards.placed ? job->mode->offer(c, job, m)
                              : offer_probe(c, job, m);
}

struct offer offers_for(struct coord *c, struct job *job,
                        const struct member *m)
{
    // A rank works for its own job alone.
    if (job_rests(job) || queue_waits(job) || excluded_now(c, m, job) ||
        (leases_ring_job(m) != NULL && leases_ring_job(m) != job))
        return (struct offer){.kind = WORK_NONE};
    return job_offer(c, job, m);
}

// ---- offers to any worker

bool offers_has_range(const struct job *job)
{
    return job->evaluations.running != NULL &&
           evaluation_offer(job->evaluations.running, 0, true) != NULL;
}

bool offers_work_any(struct coord *c, struct job *job, bool newcomer)
{
    (void)newcomer;
    if (!job_served(job))
        return false;
    return offers_has_range(job) ||
           (job->state == JOB_RUNNING &&
            (offers_next(c, job, NULL) < job->shards.evidence.closures ||
             copies_next(c, job) != NULL));
}

bool offers_any(struct coord *c, struct job *job, bool newcomer)
{
    if (job_rests(job))
        return false;
    if (job->shards.placed)
        return job->mode->offers(c, job, newcomer);
    return !job->reports.has_facts && !job->external &&
           closure_ready(&job->leases.probe.closure, coord_now(c));
}
