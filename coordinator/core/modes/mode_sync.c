// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/mode_sync.c -- modes sync and local: the contributions
// of a round become one update; the slots of a round are for different workers.
#include "common/base/num.h"
#include "coordinator/core/job.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/modes/modes.h"
#include "coordinator/core/leases/offers.h"
#include "coordinator/core/leases/suspects.h"
#include "proto/spec.h"

static void sync_placed(struct job *job)
{
    job->shards.evidence.round = spec_contributions(job->spec->train);
}

// ---- slots of rounds behind the open one (Y4)

// Returns true if slots of rounds behind the open one are leased. With copies a
// worker without a slot of the open round is given a copy instead.
static bool sync_ahead(const struct job *job)
{
    return spec_backup(job->spec->train) == 0;
}

// Returns how many rounds behind the open one this worker, or any (NULL), may
// have slots of: one each. A worker without a slot takes those left by workers
// with many.
static uint32_t sync_rounds_ahead(const struct job *job, const struct member *m)
{
    if (m == NULL || map_get(&job->leases.holders, m->id) == NULL)
        return DISPATCH_ROUNDS_MOST;
    return m->lease_most - 1;
}

// No closure of a later round is issued while a slot of the open one is left,
// be it for another worker.
static struct mode_span sync_span(const struct job *job, const struct member *m)
{
    const struct evidence *e = &job->shards.evidence;
    uint64_t open = evidence_limit(e, 0);
    bool ahead = sync_ahead(job) && (m == NULL || m->waits_for_round);

    return (struct mode_span){
        .limit =
            ahead ? evidence_limit_ahead(e, sync_rounds_ahead(job, m)) : open,
        .open = open,
    };
}

// Returns the end of the last round that the worker has a slot of, or of the
// open one: its next slot is of a later round, as the slots of a round are for
// different workers.
static uint64_t sync_rounds_had(const struct job *job, const struct member *m)
{
    const struct evidence *e = &job->shards.evidence;
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
static struct offer sync_offer_ahead(struct coord *c, struct job *job,
                                     const struct member *m)
{
    struct offer o = {.kind = WORK_NONE};

    if (!sync_ahead(job))
        return o;
    o.closure = offers_next(c, job, m);
    if (o.closure < job->shards.evidence.closures &&
        o.closure >= sync_rounds_had(job, m))
        o.kind = WORK_TRAIN;
    return o;
}

static struct offer sync_slot(struct coord *c, struct job *job,
                              const struct member *m)
{
    return map_get(&job->leases.holders, m->id) != NULL
               ? sync_offer_ahead(c, job, m)
               : offers_slot(c, job, m);
}

static bool sync_offers(struct coord *c, struct job *job, bool newcomer)
{
    if (newcomer)
        return offers_work_any(c, job, newcomer);
    return job_served(job) &&
           (offers_has_range(job) ||
            (job->state == JOB_RUNNING && sync_ahead(job) &&
             offers_next(c, job, NULL) < job->shards.evidence.closures));
}

// ---- slots ahead that are taken back (Y4)

// Returns true if a slot of the open round is neither contributed nor leased.
static bool sync_lacks_worker(const struct job *job)
{
    const struct evidence *e = &job->shards.evidence;
    uint64_t limit = evidence_limit(e, 0);

    for (uint64_t at = evidence_next(e, 0); at < limit;
         at = evidence_next(e, at + 1)) {
        struct work *w = leases_get(job, at);

        if ((w == NULL ||
             (w->closure.state == CLOSURE_WAITING && w->copy == NULL)) &&
            !evidence_closure_held(e, at))
            return true;
    }
    return false;
}

static void sync_revoke_beyond(struct coord *c, struct member *m,
                               struct job *job, uint64_t limit)
{
    static const char why[] = "a slot of an earlier round is nobody's";
    bool begun = true; // false for a lease that waits behind another one

    list_for_safe(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if (w->job == job && w->kind == WORK_TRAIN && w->closure.id >= limit) {
            if (begun)
                leases_revoke(c, m, w, why);
            else
                leases_take_back(c, m, w, why);
        }
        begun = false;
    }
}

// Takes back leases of rounds behind the open one, if a slot of the open round
// has no worker: the worker that waits for the round could be the one to make
// it.
static void sync_revoke_early(struct coord *c, struct job *job)
{
    const struct evidence *e = &job->shards.evidence;
    uint64_t limit;

    if (job->leases.end <= evidence_limit(e, 0))
        return;
    limit = sync_lacks_worker(job)
                ? evidence_limit(e, 0)
                : evidence_limit_ahead(e, DISPATCH_ROUNDS_MOST);
    if (job->leases.end <= limit)
        return;
    job->leases.end = limit;
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (map_get(&job->leases.holders, m->id) != NULL)
            sync_revoke_beyond(c, m, job, limit);
    }
}

// ---- the times of rounds, and the status

#define ROUND_SHARE 0.125 // weight of the newest round in the mean

// Notes how long a round waits for its slowest contribution.
static void sync_completed(struct job *job, uint64_t closure, uint64_t ended_ms)
{
    const struct evidence *e = &job->shards.evidence;
    uint64_t first = evidence_round_first(e, closure);
    struct round_times *r = &job->sync.rounds[first / e->round % ROUND_TIMES];

    if (r->first != first && r->count > 1)
        job->sync.last_ms +=
            ROUND_SHARE * ((double)(r->to_ms - r->from_ms) - job->sync.last_ms);
    if (r->first != first || r->count == 0)
        *r = (struct round_times){first, ended_ms, ended_ms, 0};
    r->count++;
    r->from_ms = sl_min(r->from_ms, ended_ms);
    if (ended_ms > r->to_ms)
        r->to_ms = ended_ms;
}

// Fills in the open round, of which every shard counts all or nothing.
static void sync_fill(Sluice__V1__JobStatus *m, const struct job *job)
{
    const struct evidence *e = &job->shards.evidence;
    uint64_t from, end;

    suspects_fill(m, job);
    if (evidence_full(e))
        return;
    from = evidence_round_first(e, evidence_low(e));
    m->sum_wait_ms = job->sync.last_ms;
    end = evidence_limit(e, job->spec->train->window_closures);
    for (uint64_t at = from; at < end; at++)
        m->round_held += evidence_closure_held(e, at);
    m->round_slots = (uint32_t)(end - from);
}

// What modes with rounds at the shards have in common.
#define SYNC_ROUNDS                                                            \
    .by_round = true, .placed = sync_placed, .offer = offers_work,             \
    .offers = sync_offers, .slot = sync_slot, .span = sync_span,               \
    .ahead = sync_ahead, .recheck = sync_revoke_early,                         \
    .completed = sync_completed, .fill = sync_fill

const struct mode mode_sync = {.name = "sync", SYNC_ROUNDS};

const struct mode mode_local = {.name = "local",
                                .changes = true,
                                .able = mode_local_able,
                                .open = &mode_local_open,
                                SYNC_ROUNDS};
